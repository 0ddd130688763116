//! Sockets and connections.
//!
//! Connections are bounded over all addresses: further ones wait in the kernel's queue until one
//! ends. A connection that sends no head in time is closed. When the server goes down, connections
//! finish the answer they are at.

use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, lookup_host};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;

use super::Web;

/// How long to wait after the kernel refused a connection, for want of file descriptors.
const BREATH: Duration = Duration::from_millis(50);

/// Binds `host:port`; an empty host means all interfaces, of both families where there are both.
///
/// # Errors
/// What the system says, with the address.
pub(crate) async fn bind(address: &str) -> io::Result<TcpListener> {
    let refused = |error: io::Error| {
        io::Error::new(error.kind(), format!("cannot listen on {address}: {error}"))
    };
    let port = address.strip_prefix(':').and_then(|port| port.parse::<u16>().ok());
    if let Some(port) = port {
        let all = SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), port);
        return match TcpListener::bind(all).await {
            Ok(listener) => Ok(listener),
            Err(_) => TcpListener::bind(("0.0.0.0", port)).await.map_err(refused),
        };
    }
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
    for found in lookup_host(address).await.map_err(refused)? {
        match TcpListener::bind(found).await {
            Ok(listener) => return Ok(listener),
            Err(error) => last = error,
        }
    }
    Err(refused(last))
}

/// Takes connections until `stop` says so, then waits for those at work, but no longer than `drain`.
/// Returns before `stop` only when taking connections failed for good.
pub(crate) async fn serve(
    listeners: Vec<TcpListener>,
    web: Arc<Web>,
    stop: watch::Receiver<bool>,
    drain: Duration,
) {
    let permits = Arc::new(Semaphore::new(web.app.options.max_connections.max(1)));
    let mut accepting = JoinSet::new();
    for listener in listeners {
        accepting.spawn(accept(listener, web.clone(), permits.clone(), stop.clone()));
    }
    let mut connections = JoinSet::new();
    while let Some(done) = accepting.join_next().await {
        // Whoever panicked takes no connections any more: the server must not live on deaf.
        let Ok(mut of_listener) = done else { return };
        connections.spawn(async move { while of_listener.join_next().await.is_some() {} });
    }
    let all = async { while connections.join_next().await.is_some() {} };
    // Whoever is not through by then is cut off when the runtime ends.
    let _ = tokio::time::timeout(drain, all).await;
}

/// Waits until the server goes down.
async fn stopped(stop: &mut watch::Receiver<bool>) {
    // Without a sender the server is gone already.
    let _ = stop.wait_for(|stop| *stop).await;
}

async fn accept(
    listener: TcpListener,
    web: Arc<Web>,
    permits: Arc<Semaphore>,
    mut stop: watch::Receiver<bool>,
) -> JoinSet<()> {
    let mut connections = JoinSet::new();
    loop {
        let accepted = async {
            let permit = permits.clone().acquire_owned().await;
            (permit, listener.accept().await)
        };
        let (permit, accepted) = tokio::select! {
            accepted = accepted => accepted,
            () = stopped(&mut stop) => return connections,
            Some(_) = connections.join_next() => continue,
        };
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "cannot take a connection");
                tokio::time::sleep(BREATH).await;
                continue;
            }
        };
        // Answers are written in large pieces; waiting for more would only delay the last one.
        let _ = stream.set_nodelay(true);
        let (web, mut stop) = (web.clone(), stop.clone());
        connections.spawn(async move {
            let _permit = permit;
            let timeout = web.app.options.read_timeout;
            let service = service_fn(move |request| {
                let web = web.clone();
                async move { Ok::<_, Infallible>(web.answer(request).await) }
            });
            let connection = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(timeout)
                .serve_connection(TokioIo::new(stream), service);
            let mut connection = std::pin::pin!(connection);
            let ended = tokio::select! {
                ended = connection.as_mut() => ended,
                () = stopped(&mut stop) => {
                    connection.as_mut().graceful_shutdown();
                    connection.await
                }
            };
            if let Err(error) = ended {
                // A client that goes away in the middle is none of our business.
                tracing::debug!(%error, "a connection ended");
            }
        });
    }
}
