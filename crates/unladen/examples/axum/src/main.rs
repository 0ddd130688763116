//! An axum service: a middleware counts and times requests by route, `/metrics` streams.
//!
//! ```text
//! cargo run --release -p example-axum -- [ADDRESS]
//! curl http://127.0.0.1:8080/queues/orders
//! curl --compressed http://127.0.0.1:8080/metrics
//! ```

mod service;

use std::error::Error;
use std::io::Write;

use tokio::net::TcpListener;
use unladen::Registry;
use unladen::process::Process;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:8080".to_owned());
    let registry = Registry::new();
    registry.collect(Process::new());
    let service = service::router(&registry)?;
    let listener = TcpListener::bind(&address).await?;
    writeln!(std::io::stdout(), "metrics at http://{}/metrics", listener.local_addr()?)?;
    axum::serve(listener, service).await?;
    Ok(())
}
