//! A connection's bytes: TCP, TLS over it, or TLS through a proxy's tunnel.

use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio_rustls::client::TlsStream;

use super::proxy::Via;
use super::tls::Connector;
use super::{Endpoint, Error};

/// An open connection.
pub(super) enum Stream {
    Plain(TcpStream),
    Tls(Box<TlsStream<Stream>>),
}

impl Stream {
    /// Waits until there is something to read (or the other side has closed), without a buffer.
    pub(super) async fn readable(&self) -> io::Result<()> {
        self.socket().readable().await
    }

    /// Whether an idle connection is still one: nothing has come, and it is not closed.
    pub(super) fn is_idle(&self) -> bool {
        let mut byte = [0u8];
        matches!(
            self.socket().try_read(&mut byte),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock
        )
    }

    fn socket(&self) -> &TcpStream {
        let mut stream = self;
        loop {
            match stream {
                Stream::Plain(socket) => return socket,
                Stream::Tls(tls) => stream = tls.get_ref().0,
            }
        }
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Plain(socket) => Pin::new(socket).poll_read(context, buffer),
            Stream::Tls(tls) => Pin::new(&mut **tls).poll_read(context, buffer),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Stream::Plain(socket) => Pin::new(socket).poll_write(context, bytes),
            Stream::Tls(tls) => Pin::new(&mut **tls).poll_write(context, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Plain(socket) => Pin::new(socket).poll_flush(context),
            Stream::Tls(tls) => Pin::new(&mut **tls).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Plain(socket) => Pin::new(socket).poll_shutdown(context),
            Stream::Tls(tls) => Pin::new(&mut **tls).poll_shutdown(context),
        }
    }
}

/// Connects to `endpoint`, through `via` if there is one, with TLS where the endpoint asks for it.
/// Setup: allocates. `timeout` bounds the tries of single addresses; the caller bounds the whole.
pub(super) async fn connect(
    endpoint: &Endpoint,
    via: Option<&Via>,
    connector: &Connector,
    timeout: Duration,
) -> Result<Stream, Error> {
    let Some(via) = via else {
        let socket = connect_tcp(endpoint, timeout).await?;
        return if endpoint.tls {
            start_tls(socket, endpoint, connector).await
        } else {
            Ok(socket)
        };
    };
    let mut stream = connect_tcp(&via.endpoint, timeout).await?;
    if via.endpoint.tls {
        stream = start_tls(stream, &via.endpoint, connector).await?;
    }
    if endpoint.tls {
        open_tunnel(&mut stream, endpoint, via).await?;
        stream = start_tls(stream, endpoint, connector).await?;
    }
    Ok(stream)
}

async fn connect_tcp(endpoint: &Endpoint, timeout: Duration) -> Result<Stream, Error> {
    let addresses = resolve(endpoint).await?;
    // One dead address must not use up the time of the others.
    let each = timeout / u32::try_from(addresses.len().max(1)).unwrap_or(u32::MAX);
    let mut last = None;
    for address in addresses {
        let tried = match tokio::time::timeout(each, TcpStream::connect(address)).await {
            Ok(result) => result,
            Err(_) => Err(io::Error::new(io::ErrorKind::TimedOut, "no answer to the connection")),
        };
        match tried {
            Ok(socket) => {
                // A request is one write; waiting to merge it with another only costs time.
                let _ = socket.set_nodelay(true);
                return Ok(Stream::Plain(socket));
            }
            Err(error) => last = Some((address, error)),
        }
    }
    Err(match last {
        Some((address, error)) if endpoint.host.parse::<IpAddr>().is_ok() => {
            Error::connect(address.to_string(), error)
        }
        Some((address, error)) => {
            Error::connect(format!("{} ({})", endpoint.address(), address.ip()), error)
        }
        None => Error::resolve(
            &endpoint.host,
            io::Error::new(io::ErrorKind::NotFound, "the name has no address"),
        ),
    })
}

/// Look-ups of names at the same time.
const MOST_LOOKUPS: usize = 64;

async fn resolve(endpoint: &Endpoint) -> Result<Vec<SocketAddr>, Error> {
    if let Ok(address) = endpoint.host.parse::<IpAddr>() {
        return Ok(vec![SocketAddr::new(address, endpoint.port)]);
    }
    // A look-up cannot be cancelled, and those that wait for a thread queue without bound: who gives
    // up must not leave one behind. The permit goes with the look-up, not with who waits for it.
    static LOOKUPS: Semaphore = Semaphore::const_new(MOST_LOOKUPS);
    let failed = |error| Error::resolve(&endpoint.host, error);
    let permit = LOOKUPS.acquire().await.map_err(|error| failed(io::Error::other(error)))?;
    let (host, port) = (endpoint.host.clone(), endpoint.port);
    let look_up = tokio::task::spawn_blocking(move || {
        let _permit = permit;
        (host.as_str(), port).to_socket_addrs().map(Vec::from_iter)
    });
    look_up.await.unwrap_or_else(|error| Err(io::Error::other(error))).map_err(failed)
}

async fn start_tls(
    stream: Stream,
    endpoint: &Endpoint,
    connector: &Connector,
) -> Result<Stream, Error> {
    let configuration = connector.configuration()?;
    let name = connector.server_name(&endpoint.host)?;
    let tls = tokio_rustls::TlsConnector::from(configuration)
        .connect(name, stream)
        .await
        .map_err(|error| Error::tls(&endpoint.address(), error))?;
    Ok(Stream::Tls(Box::new(tls)))
}

/// What a proxy may say to CONNECT.
const MOST_TUNNEL_HEAD: usize = 16 << 10;

async fn open_tunnel(stream: &mut Stream, endpoint: &Endpoint, via: &Via) -> Result<(), Error> {
    let address = endpoint.address();
    let request = format!(
        "CONNECT {address} HTTP/1.1\r\nHost: {address}\r\nUser-Agent: {}\r\n{}{}\r\n",
        super::USER_AGENT,
        via.credentials,
        via.connect_headers,
    );
    let broken = |error: io::Error| Error::proxy(format!("{}: {error}", via.endpoint.address()));
    stream.write_all(request.as_bytes()).await.map_err(broken)?;
    stream.flush().await.map_err(broken)?;
    let mut head = Vec::with_capacity(512);
    // Byte by byte: what follows the head belongs to TLS. This happens once per connection.
    while !head.ends_with(b"\r\n\r\n") {
        if head.len() >= MOST_TUNNEL_HEAD {
            return Err(Error::proxy("the answer to CONNECT does not end"));
        }
        match stream.read_u8().await {
            Ok(byte) => head.push(byte),
            Err(error) => return Err(broken(error)),
        }
    }
    let line = head.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let line = String::from_utf8_lossy(line);
    let status = line.split(' ').nth(1).unwrap_or_default();
    if !status.starts_with('2') || status.len() != 3 {
        return Err(Error::proxy(format!("it answers {line:?} to CONNECT {address}")));
    }
    Ok(())
}
