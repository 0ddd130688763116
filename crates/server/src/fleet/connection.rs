//! One client's connection: requests in, bodies out.

use std::cell::RefCell;
use std::future::poll_fn;
use std::io::{self, ErrorKind, IoSlice};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;

use super::behaviour;
use super::pages::{self, Page};
use super::request::{self, Asked, Here, Route};
use super::stock::Stock;
use super::target;
use super::value::Moment;
use super::world::World;

/// Bytes of a body that are made for one write: most bodies are less, and a socket that takes less makes
/// the rest worth nothing.
const WINDOW: usize = 256 << 10;

/// How long a client may take with a list of all targets: others wait for their turn.
const LIST: Duration = Duration::from_secs(30);

/// What the connections of the fleet's thread share.
pub(super) struct Shared {
    pub(super) world: Arc<World>,
    pub(super) stock: RefCell<Stock>,
    /// What requests are read into.
    pub(super) scratch: RefCell<Vec<u8>>,
    /// Turns of those who want all targets at once.
    pub(super) lists: tokio::sync::Semaphore,
}

/// Serves one connection until either side has enough of it.
pub(super) async fn serve(stream: TcpStream, shared: Rc<Shared>) {
    let world = &shared.world;
    {
        let mut served = world.served.lock();
        served.totals.connections += 1;
        served.open += 1;
    }
    // How a connection ends is the client's business.
    let _ = requests(stream, &shared).await;
    world.served.lock().open -= 1;
}

async fn requests(mut stream: TcpStream, shared: &Shared) -> io::Result<()> {
    let world = &shared.world;
    let targets = world.options.targets;
    let target = target::number(stream.local_addr()?, targets);
    let here = Here { target, targets };
    let mut kept = Vec::new();
    loop {
        let asked = match request::next(&mut stream, &shared.scratch, &mut kept, here).await {
            Ok(Some(asked)) => asked,
            Ok(None) => return Ok(()),
            Err(error) if error.kind() == ErrorKind::InvalidData => {
                let bad = Page::text("400 Bad Request", "this is no request that a fleet knows\n");
                return stream.write_all(&bad.answer(false)).await;
            }
            Err(error) => return Err(error),
        };
        let keep_alive = asked.keep_alive;
        match asked.route {
            Route::Target(number) => match world.behaviour(number) {
                None => scrape(&mut stream, shared, number, &asked).await?,
                Some(behaviour) => {
                    world.served.lock().totals.misbehaved += 1;
                    let goes_on = behaviour::answer(&mut stream, shared, number, behaviour).await?;
                    if !goes_on {
                        return Ok(());
                    }
                }
            },
            Route::Page { path, query, host } if path == "/sd" => {
                // It fails only when it is closed, which it never is.
                let Ok(_turn) = shared.lists.acquire().await else { return Ok(()) };
                let page = pages::page(world, &path, &query, &host);
                tokio::time::timeout(LIST, stream.write_all(&page.answer(keep_alive))).await??;
            }
            Route::Page { path, query, host } => {
                let page = pages::page(world, &path, &query, &host);
                stream.write_all(&page.answer(keep_alive)).await?;
            }
            Route::Method => {
                let page = Page::text("405 Method Not Allowed", "a fleet answers to GET\n");
                stream.write_all(&page.answer(false)).await?;
            }
        }
        if !keep_alive {
            return stream.shutdown().await;
        }
    }
}

/// A healthy target's answer. *Steady.*
async fn scrape(
    stream: &mut TcpStream,
    shared: &Shared,
    number: usize,
    asked: &Asked,
) -> io::Result<()> {
    let world = &shared.world;
    world.served.lock().asked(number, world.since_start());
    let order = Order {
        number,
        moment: world.moment(),
        openmetrics: asked.openmetrics && world.options.openmetrics,
        gzip: asked.gzip && world.options.gzip,
    };
    let mut sent = 0;
    let result = poll_fn(|cx| {
        let mut stock = shared.stock.borrow_mut();
        loop {
            let piece = stock.piece(world, order, sent, WINDOW);
            let slices = [IoSlice::new(piece.head), IoSlice::new(piece.body)];
            // An empty first slice costs nothing.
            let wrote = ready!(Pin::new(&mut *stream).poll_write_vectored(cx, &slices))?;
            if wrote == 0 {
                return Poll::Ready(Err(ErrorKind::WriteZero.into()));
            }
            let all = piece.all;
            sent += wrote;
            let mut served = world.served.lock();
            let now = world.since_start();
            served.sent(wrote, now);
            if sent == all {
                served.completed(world.options.series, now);
                return Poll::Ready(Ok(()));
            }
        }
    })
    .await;
    if result.is_err() {
        world.served.lock().totals.broken_off += 1;
    }
    result
}

/// Which body a client waits for: enough to make any part of it again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Order {
    pub(super) number: usize,
    pub(super) moment: Moment,
    pub(super) openmetrics: bool,
    pub(super) gzip: bool,
}
