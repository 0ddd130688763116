//! The HTTP client options as they stand in a file: their tables, their checks, and the step to
//! [`HttpClient`].

use std::path::PathBuf;

use url::Url;

use super::address;
use super::error::Report;
use super::http_client::{Auth, HeaderValues, HttpClient, Pem, Proxy, Source, Tls, TlsVersion};
use super::schema::{
    Field, Schema, anything, boolean, choice, path, paths, secret, secrets, secrets_map, section,
    section_map, text, text_map, texts, unchecked, url,
};
use super::section::Section;
use crate::secret::Secret;

/// The fields that every section with a client shares; pair it with [`check`].
pub(super) const FIELDS: &[Field] = &[
    section("basic_auth", &BASIC_AUTH).present(),
    section("authorization", &AUTHORIZATION).present(),
    section("oauth2", &OAUTH2).present(),
    secret("bearer_token"),
    path("bearer_token_file"),
    section("tls_config", &TLS),
    boolean("follow_redirects").or_true().always(),
    boolean("enable_http2").or_true().always(),
    url("proxy_url"),
    text("no_proxy"),
    boolean("proxy_from_environment"),
    secrets_map("proxy_connect_header"),
    section_map("http_headers", &HEADER),
];

/// The same for remote write, where HTTP/2 is off unless said otherwise.
pub(super) const FIELDS_HTTP1: &[Field] = &[
    section("basic_auth", &BASIC_AUTH).present(),
    section("authorization", &AUTHORIZATION).present(),
    section("oauth2", &OAUTH2).present(),
    secret("bearer_token"),
    path("bearer_token_file"),
    section("tls_config", &TLS),
    boolean("follow_redirects").or_true().always(),
    boolean("enable_http2").always(),
    url("proxy_url"),
    text("no_proxy"),
    boolean("proxy_from_environment"),
    secrets_map("proxy_connect_header"),
    section_map("http_headers", &HEADER),
];

static BASIC_AUTH: Schema = Schema {
    groups: &[&[
        text("username"),
        path("username_file"),
        text("username_ref"),
        secret("password"),
        path("password_file"),
        text("password_ref"),
    ]],
    check: |section, report| {
        section.at_most_one(report, &["username", "username_file", "username_ref"]);
        section.at_most_one(report, &["password", "password_file", "password_ref"]);
    },
};

static AUTHORIZATION: Schema = Schema {
    groups: &[&[
        text("type").or("Bearer"),
        secret("credentials"),
        path("credentials_file"),
        text("credentials_ref"),
    ]],
    check: check_authorization,
};

static OAUTH2: Schema = Schema {
    groups: &[
        &[
            text("client_id"),
            secret("client_secret"),
            path("client_secret_file"),
            text("client_secret_ref"),
            text("client_certificate_key_id"),
            secret("client_certificate_key"),
            path("client_certificate_key_file"),
            text("client_certificate_key_ref"),
            text("grant_type"),
            text("signature_algorithm"),
            text("iss"),
            text("audience"),
            anything("claims"),
            texts("scopes"),
            text("token_url"),
            text_map("endpoint_params"),
            section("tls_config", &TLS),
        ],
        &[
            url("proxy_url"),
            text("no_proxy"),
            boolean("proxy_from_environment"),
            secrets_map("proxy_connect_header"),
        ],
    ],
    check: check_oauth2,
};

/// The section `tls_config`.
pub(super) static TLS: Schema = Schema {
    groups: &[&[
        text("ca"),
        text("cert"),
        secret("key"),
        path("ca_file"),
        path("cert_file"),
        path("key_file"),
        text("ca_ref"),
        text("cert_ref"),
        text("key_ref"),
        text("server_name"),
        boolean("insecure_skip_verify").always(),
        choice("min_version", TLS_VERSIONS),
        choice("max_version", TLS_VERSIONS),
    ]],
    check: check_tls,
};

const TLS_VERSIONS: &[&str] = &["TLS10", "TLS11", "TLS12", "TLS13"];

static HEADER: Schema =
    Schema { groups: &[&[texts("values"), secrets("secrets"), paths("files")]], check: unchecked };

/// Headers that the client, the scraper or remote write set themselves, in lower case.
const RESERVED_HEADERS: [&str; 18] = [
    "authorization",
    "host",
    "content-encoding",
    "content-length",
    "content-type",
    "user-agent",
    "connection",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "www-authenticate",
    "accept-encoding",
    "x-prometheus-remote-write-version",
    "x-prometheus-remote-read-version",
    "x-prometheus-scrape-timeout-seconds",
    "x-amz-date",
    "x-amz-security-token",
    "x-amz-content-sha256",
];

/// Whether a header is not for the configuration to set.
pub(super) fn is_reserved_header(name: &str) -> bool {
    RESERVED_HEADERS.iter().any(|reserved| reserved.eq_ignore_ascii_case(name))
}

/// Checks the options of a section that has [`FIELDS`] against each other. A bearer token becomes the
/// section `authorization` that it is short for.
pub(super) fn check(section: &mut Section, report: &mut Report) {
    if !section.at_most_one(report, &["bearer_token", "bearer_token_file"]) {
        return;
    }
    let token = ["bearer_token", "bearer_token_file"].into_iter().find(|name| section.has(name));
    let auths: Vec<&str> = ["basic_auth", "authorization", "oauth2"]
        .into_iter()
        .filter(|name| section.has_section(name))
        .chain(token)
        .collect();
    if auths.len() > 1 {
        let both = super::section::enumerate(&auths, "and");
        section.error(
            report,
            auths[1],
            format!(
                "at most one of basic_auth, authorization, oauth2, bearer_token and \
                 bearer_token_file may be set, and {both} are"
            ),
        );
        return;
    }
    if let Some(name) = token {
        replace_bearer_token(section, name);
    }
    check_proxy(section, report);
    for (name, header) in section.section_map("http_headers") {
        if is_reserved_header(name) {
            report.error(header.at, &header.path, format!("the header {name:?} can't be set here"));
        } else if http::HeaderName::from_bytes(name.as_bytes()).is_err() {
            report.error(header.at, &header.path, format!("{name:?} is not a header's name"));
        }
    }
}

fn replace_bearer_token(section: &mut Section, name: &str) {
    let Some(token) = section.take(name) else { return };
    let mut authorization =
        Section::empty(&AUTHORIZATION, token.at, section.path_of("authorization"));
    let field = if name == "bearer_token" { "credentials" } else { "credentials_file" };
    authorization.set(field, token.data);
    section.set("authorization", super::section::Data::Section(Box::new(authorization)));
}

fn check_authorization(section: &mut Section, report: &mut Report) {
    section.at_most_one(report, &["credentials", "credentials_file", "credentials_ref"]);
    let scheme = section.text("type").trim().to_owned();
    if scheme.eq_ignore_ascii_case("basic") {
        section.error(report, "type", "use the section basic_auth for the type \"basic\"");
    }
    let scheme = if scheme.is_empty() { "Bearer".to_owned() } else { scheme };
    section.set("type", super::section::Data::Text(scheme));
}

fn check_oauth2(section: &mut Section, report: &mut Report) {
    section.require(report, "client_id");
    section.require(report, "token_url");
    if section.text("grant_type") == "urn:ietf:params:oauth:grant-type:jwt-bearer" {
        section.at_most_one(
            report,
            &[
                "client_certificate_key",
                "client_certificate_key_file",
                "client_certificate_key_ref",
            ],
        );
        let algorithm = section.text("signature_algorithm");
        if !matches!(algorithm, "" | "RS256" | "RS384" | "RS512") {
            section.error(
                report,
                "signature_algorithm",
                format!("unknown algorithm {algorithm:?}, expected RS256, RS384 or RS512"),
            );
        }
    } else {
        section.at_most_one(report, &["client_secret", "client_secret_file", "client_secret_ref"]);
    }
    check_proxy(section, report);
}

fn check_tls(section: &mut Section, report: &mut Report) {
    section.at_most_one(report, &["ca", "ca_file", "ca_ref"]);
    section.at_most_one(report, &["cert", "cert_file", "cert_ref"]);
    section.at_most_one(report, &["key", "key_file", "key_ref"]);
    let any = |names: [&'static str; 3]| names.into_iter().find(|name| section.has(name));
    match (any(["cert", "cert_file", "cert_ref"]), any(["key", "key_file", "key_ref"])) {
        (Some(cert), None) => {
            section.error(report, cert, "a certificate needs its key: set key or key_file");
        }
        (None, Some(key)) => {
            section.error(report, key, "a key needs its certificate: set cert or cert_file");
        }
        _ => {}
    }
    let (min, max) = (section.text("min_version"), section.text("max_version"));
    if !min.is_empty() && !max.is_empty() && min > max {
        section.error(report, "max_version", format!("{max} is older than min_version {min}"));
    }
}

fn check_proxy(section: &Section, report: &mut Report) {
    let proxy = section.has("proxy_url");
    let environment = section.bool("proxy_from_environment");
    if proxy {
        if let Err(reason) = address::parse(section.text("proxy_url")) {
            section.error(report, "proxy_url", reason);
        }
        if environment {
            section.error(
                report,
                "proxy_from_environment",
                "at most one of proxy_url and proxy_from_environment may be set",
            );
        }
    }
    if section.has("no_proxy") {
        if environment {
            section.error(
                report,
                "no_proxy",
                "proxy_from_environment takes it from the variable NO_PROXY: remove one of them",
            );
        } else if !proxy {
            section.error(report, "no_proxy", "it has no effect without proxy_url: set it as well");
        }
    }
    if section.has("proxy_connect_header") && !proxy && !environment {
        section.error(
            report,
            "proxy_connect_header",
            "it has no effect without a proxy: set proxy_url or proxy_from_environment as well",
        );
    }
}

/// The client of a checked section. What does not work yet goes to the report, and what the section
/// asks for there is left out.
pub(super) fn build(section: &Section, report: &mut Report) -> HttpClient {
    HttpClient {
        auth: build_auth(section, report),
        tls: section.section("tls_config").map(|tls| build_tls(tls, report)).unwrap_or_default(),
        proxy: build_proxy(section, report),
        follow_redirects: section.bool("follow_redirects"),
        enable_http2: section.bool("enable_http2"),
        headers: section
            .section_map("http_headers")
            .iter()
            .map(|(name, header)| (name.clone(), build_header(header)))
            .collect(),
    }
}

fn build_auth(section: &Section, report: &mut Report) -> Option<Auth> {
    if let Some(oauth2) = section.section("oauth2") {
        report.unsupported(oauth2.at, &oauth2.path, "OAuth 2.0 doesn't work yet");
    }
    if let Some(basic) = section.section("basic_auth") {
        no_secret_manager(basic, report, &["username_ref", "password_ref"]);
        let username = match basic.some_text("username_file") {
            Some(file) => Source::File(PathBuf::from(file)),
            None => Source::Inline(basic.text("username").to_owned()),
        };
        let password = secret_source(basic, "password", "password_file");
        return Some(Auth::Basic { username, password });
    }
    let authorization = section.section("authorization")?;
    no_secret_manager(authorization, report, &["credentials_ref"]);
    Some(Auth::Header {
        scheme: authorization.text("type").to_owned(),
        credentials: secret_source(authorization, "credentials", "credentials_file"),
    })
}

fn secret_source(section: &Section, text: &str, file: &str) -> Option<Source<Secret>> {
    section
        .some_text(text)
        .map(|text| Source::Inline(Secret::new(text)))
        .or_else(|| section.some_text(file).map(|file| Source::File(PathBuf::from(file))))
}

/// Names of secrets in a secret manager, which there is none of.
fn no_secret_manager(section: &Section, report: &mut Report, names: &[&str]) {
    for name in names.iter().filter(|name| section.has(name)) {
        report.unsupported(
            section.at(name),
            section.path_of(name),
            "there is no secret manager: set the value or its file instead",
        );
    }
}

fn build_tls(section: &Section, report: &mut Report) -> Tls {
    no_secret_manager(section, report, &["ca_ref", "cert_ref", "key_ref"]);
    let pem = |text, file| -> Option<Pem> { secret_source(section, text, file) };
    let max_version = tls_version(section.text("max_version"));
    if max_version.is_some_and(|version| version < TlsVersion::Tls12) {
        report.unsupported(
            section.at("max_version"),
            section.path_of("max_version"),
            "TLS 1.0 and 1.1 are not spoken: nothing older than TLS12 can be reached",
        );
    }
    Tls {
        ca: pem("ca", "ca_file"),
        identity: pem("cert", "cert_file").zip(pem("key", "key_file")),
        server_name: section.some_text("server_name").map(str::to_owned),
        insecure_skip_verify: section.bool("insecure_skip_verify"),
        min_version: tls_version(section.text("min_version")),
        max_version,
    }
}

fn tls_version(text: &str) -> Option<TlsVersion> {
    match text {
        "TLS10" => Some(TlsVersion::Tls10),
        "TLS11" => Some(TlsVersion::Tls11),
        "TLS12" => Some(TlsVersion::Tls12),
        "TLS13" => Some(TlsVersion::Tls13),
        _ => None,
    }
}

fn build_proxy(section: &Section, report: &mut Report) -> Proxy {
    let connect_headers = section
        .texts_map("proxy_connect_header")
        .iter()
        .map(|(name, values)| (name.clone(), values.iter().map(Secret::new).collect()))
        .collect();
    if section.bool("proxy_from_environment") {
        return Proxy::FromEnvironment { connect_headers };
    }
    let Some(text) = section.some_text("proxy_url") else { return Proxy::None };
    // A proxy without a scheme is reached over HTTP.
    let absolute = if text.contains("://") { text.to_owned() } else { format!("http://{text}") };
    match Url::parse(&absolute) {
        Ok(url) => {
            Proxy::Url { url, no_proxy: section.text("no_proxy").to_owned(), connect_headers }
        }
        Err(error) => {
            section.error(report, "proxy_url", format!("not a URL: {error}"));
            Proxy::None
        }
    }
}

fn build_header(section: &Section) -> HeaderValues {
    HeaderValues {
        values: section.text_list("values"),
        secrets: section.texts("secrets").iter().map(|(_, text)| Secret::new(text)).collect(),
        files: section.texts("files").iter().map(|(_, text)| PathBuf::from(text)).collect(),
    }
}
