//! Scraping over real sockets: good targets and bad ones, discovery, reloads.

mod discovery;
mod misbehaviour;
mod requests;
mod server;
mod stage;
