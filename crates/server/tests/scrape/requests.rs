//! What a target is asked, over which connection, and with which credentials.

use std::sync::Arc;

use server::scrape::{Health, Options};

use crate::server::{Server, gzip, ok, text};
use crate::stage::{Stage, is_stale, until};

fn job(server: &Server, options: &str) -> String {
    format!(
        "global: {{scrape_interval: 50ms, scrape_timeout: 50ms}}\nscrape_configs:\n- job_name: a\n  \
         static_configs: [{{targets: ['{}']}}]\n  scrape_interval: 1s\n  scrape_timeout: 750ms\n  {options}\n",
        server.address
    )
}

/// Many scrapes in little time.
fn quick(server: &Server, options: &str) -> String {
    job(server, options)
        .replace("scrape_interval: 1s", "scrape_interval: 20ms")
        .replace("scrape_timeout: 750ms", "scrape_timeout: 20ms")
}

type Asked = (&'static str, &'static str, &'static [(&'static str, &'static str)]);

/// Options, path of the request, and headers with their values; `-` for none.
const HEADERS: &[Asked] = &[
    (
        "",
        "/metrics",
        &[
            (
                "accept",
                "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,\
                 application/openmetrics-text;version=0.0.1;q=0.4,\
                 text/plain;version=1.0.0;escaping=allow-utf-8;q=0.3,\
                 text/plain;version=0.0.4;q=0.2,*/*;q=0.1",
            ),
            ("accept-encoding", "gzip, zstd"),
            ("x-prometheus-scrape-timeout-seconds", "0.75"),
            ("user-agent", concat!("unladen/", env!("CARGO_PKG_VERSION"))),
            ("authorization", "-"),
        ],
    ),
    (
        "scrape_protocols: [PrometheusText0.0.4]\n  enable_compression: false",
        "/metrics",
        &[("accept", "text/plain;version=0.0.4;q=0.2,*/*;q=0.1"), ("accept-encoding", "identity")],
    ),
    (
        "metric_name_validation_scheme: legacy\n  metric_name_escaping_scheme: dots\n  \
         scrape_protocols: [OpenMetricsText1.0.0]",
        "/metrics",
        &[("accept", "application/openmetrics-text;version=1.0.0;escaping=dots;q=0.2,*/*;q=0.1")],
    ),
    (
        "basic_auth: {username: me, password: 'se:cret'}",
        "/metrics",
        &[("authorization", "Basic bWU6c2U6Y3JldA==")],
    ),
    (
        "authorization: {type: Token, credentials: abc}",
        "/metrics",
        &[("authorization", "Token abc")],
    ),
    ("bearer_token: abc", "/metrics", &[("authorization", "Bearer abc")]),
    (
        "http_headers: {X-One: {values: [a, b]}, X-Two: {secrets: [c]}}",
        "/metrics",
        &[("x-one", "a,b"), ("x-two", "c")],
    ),
    (
        "metrics_path: /a b/c\n  params: {'match[]': ['up', '{a=\"b\"}'], x: ['']}",
        "/a%20b/c?match%5B%5D=up&match%5B%5D=%7Ba%3D%22b%22%7D&x=",
        &[],
    ),
    (
        "params: {module: [old]}\n  relabel_configs: [{target_label: __param_module, replacement: new}, \
         {target_label: __metrics_path__, replacement: /probe}]",
        "/probe?module=new",
        &[],
    ),
];

#[tokio::test]
async fn headers_and_paths() {
    for (options, path, headers) in HEADERS {
        let server = Server::start().await;
        let stage = Stage::new(Options::default());
        stage.apply(&job(&server, options));
        let target = stage.scraped("a").await;
        assert_eq!(target.last_error, None, "{options}");
        let plain = path.split('?').next().unwrap();
        let request = server.requests(plain).pop().expect("the path was asked for");
        assert_eq!(request.line, format!("GET {path}"), "{options}");
        assert_eq!(request.header("host"), server.address.to_string());
        for (name, value) in *headers {
            let got = request.headers.get(*name).map_or("-", String::as_str);
            assert_eq!(got, *value, "{options}: {name}");
        }
        assert_eq!(&*target.scrape_url, format!("http://{}{path}", server.address));
        stage.manager.shutdown().await;
    }
}

#[tokio::test]
async fn credentials_in_files_are_read_again() {
    let server = Server::start().await;
    let stage = Stage::new(Options::default());
    let token = stage.folder.path().join("token");
    std::fs::write(&token, "one\n").unwrap();
    stage.apply(&quick(&server, "authorization: {credentials_file: token}"));
    let last = || server.requests("/metrics").pop().map(|r| r.header("authorization").to_owned());
    until("the first token", || (last()? == "Bearer one").then_some(())).await;
    std::fs::write(&token, "two").unwrap();
    until("the second token", || (last()? == "Bearer two").then_some(())).await;
    std::fs::remove_file(&token).unwrap();
    let error = until("the error", || stage.pool("a").active.pop()?.last_error).await;
    assert!(error.contains("cannot read the credentials in"), "{error}");
    stage.manager.shutdown().await;
}

#[tokio::test]
async fn one_connection_is_kept_also_over_a_reload() {
    let server = Server::start().await;
    let stage = Stage::new(Options::default());
    stage.apply(&quick(&server, ""));
    until("ten scrapes", || (server.requests("/metrics").len() >= 10).then_some(())).await;
    // Other options, the same target: it keeps its connection, and its series are not marked.
    stage.apply(&quick(&server, "honor_labels: true\n  sample_limit: 100"));
    until("ten more", || (server.requests("/metrics").len() >= 20).then_some(())).await;
    assert_eq!(server.connections(), 1);
    stage.manager.shutdown().await;
    let series = stage.series("a");
    assert!(series["good"].len() >= 15);
    assert!(series.values().flatten().all(|(_, value)| !is_stale(*value)), "{series:?}");
}

#[tokio::test]
async fn a_connection_that_was_closed_in_the_meantime_is_replaced() {
    let server = Server::start().await;
    // The answer does not say that the connection ends, and then it does.
    server.answer("/metrics", text("a 1\n"));
    let stage = Stage::new(Options::default());
    let proxy = closing_proxy(server.address).await;
    stage.apply(&quick(&server, "").replace(&server.address.to_string(), &proxy.to_string()));
    until("ten scrapes", || (server.requests("/metrics").len() >= 10).then_some(())).await;
    stage.manager.shutdown().await;
    let ups = &stage.series("a")["up"];
    assert!(ups.iter().all(|(_, up)| *up == 1.0), "{ups:?}");
}

/// Passes one request and one answer on, then closes.
async fn closing_proxy(target: std::net::SocketAddr) -> std::net::SocketAddr {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut inside, _)) = listener.accept().await {
            let mut outside = tokio::net::TcpStream::connect(target).await.unwrap();
            let mut buffer = [0; 4096];
            let read = inside.read(&mut buffer).await.unwrap_or(0);
            let _ = outside.write_all(&buffer[..read]).await;
            let read = outside.read(&mut buffer).await.unwrap_or(0);
            let _ = inside.write_all(&buffer[..read]).await;
        }
    });
    address
}

#[tokio::test]
async fn compressed_and_chunked_bodies() {
    let server = Server::start().await;
    let lines: String = (0..500).map(|n| format!("a{{n=\"{n}\"}} {n}\n")).collect();
    let plain = "Content-Type: text/plain\r\n";
    let mut zstd = vec![0; zstd_safe::compress_bound(lines.len())];
    let size = zstd_safe::compress(&mut zstd[..], lines.as_bytes(), 1).unwrap();
    let chunks: String = lines
        .as_bytes()
        .chunks(777)
        .map(|c| format!("{:x}\r\n{}\r\n", c.len(), std::str::from_utf8(c).unwrap()))
        .collect();
    let bodies = [
        ("identity", ok(plain, lines.as_bytes())),
        ("gzip", ok(&format!("{plain}Content-Encoding: gzip\r\n"), &gzip(lines.as_bytes()))),
        ("zstd", ok(&format!("{plain}Content-Encoding: zstd\r\n"), &zstd[..size])),
        (
            "chunks",
            format!(
                "HTTP/1.1 200 OK\r\n{plain}Transfer-Encoding: chunked\r\n\r\n{chunks}0\r\n\r\n"
            )
            .into_bytes(),
        ),
        (
            "interim",
            [&b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"[..], &ok(plain, lines.as_bytes())]
                .concat(),
        ),
    ];
    for (name, answer) in bodies {
        server.answer("/metrics", answer);
        let stage = Stage::new(Options::default());
        stage.apply(&job(&server, ""));
        let target = stage.scraped("a").await;
        assert_eq!(target.last_error, None, "{name}");
        assert_eq!(target.samples_scraped, 500, "{name}");
        assert_eq!(target.body_bytes, lines.len() as u64, "{name}");
        stage.manager.shutdown().await;
        assert_eq!(stage.series("a")["a{n=\"499\"}"][0].1, 499.0, "{name}");
    }
}

#[tokio::test]
async fn redirects_carry_credentials_only_to_the_same_host() {
    let there = Server::start().await;
    let port = there.address.port();
    // Another name for the same machine is another host.
    for (host, carried) in [("127.0.0.1", true), ("localhost", false)] {
        let here = Server::start().await;
        let location = format!("Location: http://{host}:{port}/there\r\n");
        let head =
            format!("HTTP/1.1 307 Temporary Redirect\r\n{location}Content-Length: 4\r\n\r\ngone");
        here.answer("/metrics", head);
        let stage = Stage::new(Options::default());
        stage.apply(&quick(
            &here,
            "bearer_token: abc\n  http_headers: {Cookie: {values: [x]}, X-Secret: {secrets: [y]}, \
             X-Open: {values: [z]}}",
        ));
        until("redirected scrapes", || {
            let target = stage.pool("a").active.pop()?;
            (target.health == Health::Up && there.requests("/there").len() >= 3).then_some(())
        })
        .await;
        stage.manager.shutdown().await;
        let request = there.requests("/there").pop().unwrap();
        let expect = |value| if carried { value } else { "" };
        assert_eq!(request.header("authorization"), expect("Bearer abc"), "{host}");
        assert_eq!(request.header("cookie"), expect("x"), "{host}");
        assert_eq!(request.header("x-secret"), expect("y"), "{host}");
        assert_eq!(request.header("x-open"), "z", "{host}");
        // Both connections were kept.
        assert_eq!(here.connections(), 1, "{host}");
    }
}

#[tokio::test]
async fn a_proxy_gets_the_whole_url() {
    let proxy = Server::start().await;
    let stage = Stage::new(Options::default());
    let options = format!("proxy_url: http://user:pass@{}", proxy.address);
    stage.apply(
        &job(&proxy, &options).replace(&format!("['{}']", proxy.address), "['target.example:81']"),
    );
    let target = stage.scraped("a").await;
    assert_eq!(target.last_error, None);
    // The path of the absolute form is the whole URL.
    let request = proxy.requests("http://target.example:81/metrics").pop().unwrap();
    assert_eq!(request.header("host"), "target.example:81");
    assert_eq!(request.header("proxy-authorization"), "Basic dXNlcjpwYXNz");
    stage.manager.shutdown().await;
}

// Made for these tests with `openssl req` and `openssl x509 -req`, for the name target.example and for a
// hundred years; the key of the authority is thrown away.
const CA: &str = include_str!("tls/ca.pem");
const CERT: &str = include_str!("tls/cert.pem");
const KEY: &str = include_str!("tls/key.pem");

fn tls_config(client_auth: bool) -> rustls::ServerConfig {
    use rustls::pki_types::pem::PemObject;
    use rustls::pki_types::{CertificateDer, PrivateKeyDer};
    let provider = server::http_client::tls::provider();
    let certificates = |pem: &'static str| CertificateDer::pem_slice_iter(pem.as_bytes());
    let chain = certificates(CERT).collect::<Result<_, _>>().unwrap();
    let key = PrivateKeyDer::from_pem_slice(KEY.as_bytes()).unwrap();
    let builder = rustls::ServerConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .unwrap();
    let builder = if client_auth {
        let mut roots = rustls::RootCertStore::empty();
        roots.add_parsable_certificates(certificates(CA).map(Result::unwrap));
        let verifier =
            rustls::server::WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
        builder.with_client_cert_verifier(verifier.build().unwrap())
    } else {
        builder.with_no_client_auth()
    };
    builder.with_single_cert(chain, key).unwrap()
}

/// Whether the server asks for a certificate, `tls_config`, and what the error says.
const TLS: &[(bool, &str, &str)] = &[
    (false, "{ca_file: ca.pem, server_name: target.example}", ""),
    (false, "{ca_file: ca.pem, server_name: target.example, min_version: TLS13}", ""),
    (false, "{ca_file: ca.pem, server_name: target.example, max_version: TLS12}", ""),
    (false, "{ca_file: ca.pem, server_name: other.example}", "not valid for name"),
    (false, "{ca_file: ca.pem}", "not valid for name"),
    (false, "{insecure_skip_verify: true}", ""),
    (false, "{server_name: target.example}", "invalid peer certificate: UnknownIssuer"),
    (false, "{ca_file: gone.pem}", "ca_file: cannot read"),
    (true, "{insecure_skip_verify: true, cert_file: cert.pem, key_file: key.pem}", ""),
    (true, "{insecure_skip_verify: true}", "ertificate"),
];

#[tokio::test]
async fn tls() {
    for (client_auth, options, expected) in TLS {
        let server = Server::start_with(Some(tls_config(*client_auth))).await;
        let stage = Stage::new(Options::default());
        for (name, text) in [("ca.pem", CA), ("cert.pem", CERT), ("key.pem", KEY)] {
            std::fs::write(stage.folder.path().join(name), text).unwrap();
        }
        stage.apply(&job(&server, &format!("scheme: https\n  tls_config: {options}")));
        let error = stage.scraped("a").await.last_error;
        let error = error.as_deref().unwrap_or("");
        assert_eq!(error.is_empty(), expected.is_empty(), "{options}: {error}");
        assert!(error.contains(expected), "{options}: {error}");
        stage.manager.shutdown().await;
    }
}

/// Secrets that were meant for TLS do not go out in the open, also not to the same host.
#[tokio::test]
async fn a_redirect_from_https_to_http_loses_its_secrets() {
    let (open, closed) = (Server::start().await, Server::start_with(Some(tls_config(false))).await);
    for (from, to) in [("/metrics", &open), ("/safe", &closed)] {
        let scheme = if from == "/metrics" { "http" } else { "https" };
        let location = format!(
            "HTTP/1.1 307 Temporary Redirect\r\nLocation: {scheme}://{}/there\r\nContent-Length: 0\r\n\r\n",
            to.address
        );
        closed.answer(from, location);
        let stage = Stage::new(Options::default());
        let options = format!(
            "scheme: https\n  metrics_path: {from}\n  bearer_token: abc\n  \
             http_headers: {{X-Secret: {{secrets: [y]}}, X-Plain: {{values: [z]}}}}\n  \
             tls_config: {{insecure_skip_verify: true}}"
        );
        stage.apply(&job(&closed, &options));
        assert_eq!(stage.scraped("a").await.last_error, None, "{from}");
        let asked = closed.requests(from).pop().expect("it was asked first");
        assert_eq!(asked.header("authorization"), "Bearer abc");
        let request = to.requests("/there").pop().expect("the redirect was followed");
        let keeps = scheme == "https";
        assert_eq!(request.header("authorization"), if keeps { "Bearer abc" } else { "" });
        assert_eq!(request.header("x-secret"), if keeps { "y" } else { "" });
        assert_eq!(request.header("x-plain"), "z");
        stage.manager.shutdown().await;
    }
}

/// Many servers end a connection without TLS' goodbye. Without a length that is the end of the body; with
/// one, what is missing is missing.
#[tokio::test]
async fn tls_that_ends_without_a_goodbye() {
    for (path, expected) in [("/until-close", ""), ("/cut", "in the middle of the body")] {
        let server = Server::start_with(Some(tls_config(false))).await;
        let stage = Stage::new(Options::default());
        let options = format!(
            "scheme: https\n  metrics_path: {path}\n  tls_config: {{insecure_skip_verify: true}}"
        );
        stage.apply(&job(&server, &options));
        let target = stage.scraped("a").await;
        let error = target.last_error.as_deref().unwrap_or("");
        assert_eq!(error.is_empty(), expected.is_empty(), "{path}: {error}");
        // Whoever ends early may be heard as an error of TLS.
        assert!(error.contains(expected) || error.contains("close_notify"), "{path}: {error}");
        assert_eq!(target.samples_scraped, u64::from(expected.is_empty()), "{path}");
        stage.manager.shutdown().await;
    }
}

#[tokio::test]
async fn https_goes_through_a_tunnel() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let server = Server::start_with(Some(tls_config(false))).await;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let proxy = listener.local_addr().unwrap();
    let target = server.address;
    let asked = Arc::new(parking_lot::Mutex::new(String::new()));
    let heard = asked.clone();
    tokio::spawn(async move {
        while let Ok((mut inside, _)) = listener.accept().await {
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                head.push(inside.read_u8().await.unwrap());
            }
            *heard.lock() = String::from_utf8(head).unwrap();
            inside.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").await.unwrap();
            let mut outside = tokio::net::TcpStream::connect(target).await.unwrap();
            let _ = tokio::io::copy_bidirectional(&mut inside, &mut outside).await;
        }
    });
    let stage = Stage::new(Options::default());
    std::fs::write(stage.folder.path().join("ca.pem"), CA).unwrap();
    let options = format!(
        "scheme: https\n  proxy_url: http://{proxy}\n  proxy_connect_header: {{X-Way: [tunnel]}}\n  \
         tls_config: {{ca_file: ca.pem}}"
    );
    stage.apply(&job(&server, &options).replace(&format!("['{target}']"), "['target.example']"));
    let scraped = stage.scraped("a").await;
    assert_eq!(scraped.last_error, None);
    let head = asked.lock().clone();
    assert!(head.starts_with("CONNECT target.example:443 HTTP/1.1\r\n"), "{head}");
    assert!(head.contains("\r\nX-Way: tunnel\r\n"), "{head}");
    stage.manager.shutdown().await;
}

/// Lines that went are thrown out every sixteen scrapes; families that are still there stay.
#[tokio::test]
async fn metadata_of_openmetrics_outlives_lines_that_go() {
    let server = Server::start().await;
    let stage = Stage::new(Options::default());
    stage.apply(&quick(&server, ""));
    let body = |round: usize| {
        let text =
            format!("# HELP a What a is.\n# TYPE a gauge\na{{round=\"{round}\"}} 1\n# EOF\n");
        ok("Content-Type: application/openmetrics-text; version=1.0.0\r\n", text.as_bytes())
    };
    for round in 0..40 {
        let seen = server.requests("/metrics").len();
        server.answer("/metrics", body(round));
        until("a scrape", || (server.requests("/metrics").len() > seen).then_some(())).await;
    }
    let target = stage.scraped("a").await;
    let families = target.metadata();
    let family = families.iter().find(|known| &*known.family == "a");
    assert_eq!(family.map(|known| &*known.help), Some("What a is."), "{families:?}");
    stage.manager.shutdown().await;
}
