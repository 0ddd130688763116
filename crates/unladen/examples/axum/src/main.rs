//! An axum service: a middleware counts and times requests by route, `/metrics` and `/debug/pprof/` stream.
//!
//! ```text
//! cargo run --release -p example-axum -- [ADDRESS]
//! curl http://127.0.0.1:8080/queues/orders
//! curl --compressed http://127.0.0.1:8080/metrics
//! go tool pprof http://127.0.0.1:8080/debug/pprof/profile?seconds=5
//! ```

mod service;

use std::alloc::System;
use std::error::Error;
use std::io::Write;

use profiler::serve::Pprof;
use profiler::{Metrics, Profiler, heap};
use tokio::net::TcpListener;
use unladen::Registry;
use unladen::process::Process;

/// The system's allocator, sampled for the heap's profile.
#[global_allocator]
static ALLOCATOR: heap::Allocator<System> = heap::Allocator::new(System);

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:8080".to_owned());
    let registry = Registry::new();
    registry.collect(Process::new());
    let profiler = Profiler::start()?;
    registry.collect(Metrics::new(&profiler));
    registry.collect(heap::Metrics);
    let heap = heap::start(heap::Options::default(), profiler.tables())?;
    let service = service::router(&registry, Pprof::new(profiler).heap(heap))?;
    let listener = TcpListener::bind(&address).await?;
    let address = listener.local_addr()?;
    let mut out = std::io::stdout();
    writeln!(out, "http://{address}/metrics\nhttp://{address}/debug/pprof/")?;
    axum::serve(listener, service).await?;
    Ok(())
}
