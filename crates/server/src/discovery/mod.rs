//! Discovery: where the targets of a job come from.
//!
//! ```text
//! group   groups of targets as files and servers write them
//! file    file_sd_configs: files that are watched
//! http    http_sd_configs: lists that are fetched
//! ```
//! Each source ([`Source`]) publishes all its groups at once whenever they change, and keeps the last
//! good ones when something is broken. Sources whose configuration stays the same survive a reload.

mod file;
mod group;
mod http;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use store::Labels;
use tokio::task::JoinHandle;

pub use group::Group;

use crate::config::Discovery;
use crate::http_client::{self, Buffers};

/// What discovery counts. Steady to update.
#[derive(Debug, Default)]
pub struct Counters {
    /// Files that could not be read, or did not hold groups.
    pub file_read_errors: AtomicU64,
    /// Watches on directories that could not be set.
    pub file_watcher_errors: AtomicU64,
    /// Lists that could not be fetched, or did not hold groups.
    pub http_failures: AtomicU64,
    /// Updates that sources published.
    pub updates: AtomicU64,
}

/// What every source needs.
#[derive(Clone)]
pub(crate) struct Context {
    pub(crate) job: Arc<str>,
    pub(crate) buffers: Arc<Buffers>,
    pub(crate) counters: Arc<Counters>,
    /// To be called whenever groups have changed.
    pub(crate) changed: Arc<dyn Fn() + Send + Sync>,
}

/// The sources of one job.
#[derive(Default)]
pub(crate) struct Sources {
    sources: Vec<Source>,
}

/// One source: an element of one of the `*_sd_configs`.
struct Source {
    config: Discovery,
    published: Arc<Published>,
    task: Option<JoinHandle<()>>,
}

/// What a source last found.
#[derive(Default)]
pub(crate) struct Published {
    groups: Mutex<Arc<Vec<Group>>>,
    error: Mutex<Option<String>>,
}

impl Published {
    /// Replaces all groups; says whether anything is different.
    fn replace(&self, groups: Vec<Group>) -> bool {
        let mut current = self.groups.lock();
        let different = **current != groups;
        if different {
            *current = Arc::new(groups);
        }
        different
    }

    fn set_error(&self, error: Option<String>) {
        *self.error.lock() = error;
    }
}

impl Drop for Source {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}

impl Sources {
    /// Makes the sources those of `configs`; sources whose configuration is the same go on. Must be
    /// called within a runtime.
    ///
    /// # Errors
    /// Client options that cannot be honoured: nothing has changed then.
    pub(crate) fn apply(
        &mut self,
        configs: &[Discovery],
        context: &Context,
    ) -> Result<(), http_client::Error> {
        let mut clients = Vec::with_capacity(configs.len());
        for config in configs {
            clients.push(match config {
                Discovery::Http(http) => Some(http_client::Client::new(&http.http)?),
                Discovery::Static(_) | Discovery::File(_) => None,
            });
        }
        let mut old = std::mem::take(&mut self.sources);
        for (config, client) in configs.iter().zip(clients) {
            if let Some(at) = old.iter().position(|source| source.config == *config) {
                self.sources.push(old.swap_remove(at));
                continue;
            }
            let published = Arc::<Published>::default();
            let task = match config {
                Discovery::Static(groups) => {
                    published.replace(groups.iter().map(Group::of_static).collect());
                    None
                }
                Discovery::File(file) => {
                    let watch = file::Watch::new(file, published.clone(), context.clone());
                    Some(tokio::spawn(watch.run()))
                }
                Discovery::Http(http) => {
                    let client = client.expect("it was made above");
                    let poll = http::Poll::new(http, client, published.clone(), context.clone());
                    Some(tokio::spawn(poll.run()))
                }
            };
            self.sources.push(Source { config: config.clone(), published, task });
        }
        Ok(())
    }

    /// The groups of all sources, in the order of the configuration.
    pub(crate) fn groups(&self) -> Vec<Arc<Vec<Group>>> {
        self.sources.iter().map(|source| source.published.groups.lock().clone()).collect()
    }

    /// Why sources hold on to what they found before.
    pub(crate) fn errors(&self) -> Vec<String> {
        self.sources.iter().filter_map(|source| source.published.error.lock().clone()).collect()
    }
}

impl Context {
    /// Publishes groups, and wakes whoever builds targets of them.
    fn publish(&self, published: &Published, groups: Vec<Group>) {
        if published.replace(groups) {
            self.counters.updates.fetch_add(1, Ordering::Relaxed);
            (self.changed)();
        }
    }
}

/// `labels` and one more.
fn with(labels: &Labels, name: &str, value: &str) -> Labels {
    let mut builder = labels.to_builder();
    builder.set(name, value);
    builder.build()
}
