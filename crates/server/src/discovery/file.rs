//! `file_sd_configs`: targets in files, read when they change and every so often.
//!
//! The directories are watched, not the files: an editor that writes a new file and renames it, and a
//! mounted configuration that swaps a link, are seen as well. A file that is broken keeps the groups
//! that it had; a file that is gone loses them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use notify::{EventKind, RecursiveMode, Watcher};
use tokio::sync::Notify;

use super::{Context, Group, Published, with};
use crate::config::FileDiscovery;

const FILEPATH: &str = "__meta_filepath";

/// The files of one element of `file_sd_configs`.
pub(super) struct Watch {
    config: FileDiscovery,
    published: Arc<Published>,
    context: Context,
    files: BTreeMap<PathBuf, Vec<Group>>,
}

impl Watch {
    pub(super) fn new(config: &FileDiscovery, published: Arc<Published>, context: Context) -> Self {
        Watch { config: config.clone(), published, context, files: BTreeMap::new() }
    }

    pub(super) async fn run(mut self) {
        let woken = Arc::new(Notify::new());
        let wake = woken.clone();
        let watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
            // Reading a file is an event too; only those count that may change what is read.
            if !matches!(&event, Ok(event) if matches!(event.kind, EventKind::Access(_))) {
                wake.notify_one();
            }
        });
        let mut watcher = match watcher {
            Ok(watcher) => Some(watcher),
            Err(error) => {
                self.count_watcher_error(&error.to_string());
                None
            }
        };
        let mut ticks = tokio::time::interval(self.config.refresh_interval);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
        loop {
            tokio::select! {
                _ = ticks.tick() => {}
                () = woken.notified() => {}
            }
            // Also again and again: a directory can appear later, or be replaced.
            if let Some(watcher) = &mut watcher {
                self.watch_directories(watcher);
            }
            let refreshed = tokio::task::spawn_blocking(move || {
                self.refresh();
                self
            });
            match refreshed.await {
                Ok(watch) => self = watch,
                Err(_) => return,
            }
        }
    }

    fn watch_directories(&self, watcher: &mut notify::RecommendedWatcher) {
        for pattern in &self.config.files {
            let directory = directory_of(pattern);
            if let Err(error) = watcher.watch(directory, RecursiveMode::NonRecursive) {
                self.count_watcher_error(&format!("{}: {error}", directory.display()));
            }
        }
    }

    fn count_watcher_error(&self, error: &str) {
        self.context.counters.file_watcher_errors.fetch_add(1, Ordering::Relaxed);
        tracing::warn!(
            job = %self.context.job,
            error,
            "Cannot watch for file_sd; the refresh interval still applies"
        );
    }

    /// Reads all files and publishes what they hold.
    fn refresh(&mut self) {
        let mut files = BTreeMap::new();
        let mut errors = Vec::new();
        for pattern in &self.config.files {
            for path in expand(pattern) {
                match read(&path) {
                    Ok(groups) => {
                        files.insert(path, groups);
                    }
                    Err(error) => {
                        self.context.counters.file_read_errors.fetch_add(1, Ordering::Relaxed);
                        let error = format!("{}: {error}", path.display());
                        tracing::error!(job = %self.context.job, error, "Cannot read file_sd");
                        errors.push(error);
                        let before = self.files.remove(&path).unwrap_or_default();
                        files.insert(path, before);
                    }
                }
            }
        }
        self.files = files;
        self.published.set_error((!errors.is_empty()).then(|| errors.join("; ")));
        let groups = self.files.values().flatten().cloned().collect();
        self.context.publish(&self.published, groups);
    }
}

fn read(path: &Path) -> Result<Vec<Group>, String> {
    let bytes = std::fs::read(path).map_err(|error| error.to_string())?;
    let extension = path.extension().and_then(|text| text.to_str()).unwrap_or_default();
    let mut groups = if extension.eq_ignore_ascii_case("json") {
        Group::read_json(&bytes)?
    } else {
        Group::read_yaml(std::str::from_utf8(&bytes).map_err(|error| error.to_string())?)?
    };
    let path = path.to_string_lossy();
    for group in &mut groups {
        group.labels = with(&group.labels, FILEPATH, &path);
    }
    Ok(groups)
}

fn directory_of(pattern: &Path) -> &Path {
    match pattern.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// The files that a pattern names, sorted. Only its last part can be a pattern.
fn expand(pattern: &Path) -> Vec<PathBuf> {
    let Some(name) = pattern.file_name().and_then(|name| name.to_str()) else {
        return Vec::new();
    };
    if !name.contains(['*', '?', '[']) {
        return if pattern.exists() { vec![pattern.to_owned()] } else { Vec::new() };
    }
    let Ok(entries) = std::fs::read_dir(directory_of(pattern)) else { return Vec::new() };
    let mut found: Vec<PathBuf> = entries
        .filter_map(Result::ok)
        .filter(|entry| entry.file_name().to_str().is_some_and(|found| matches(name, found)))
        .map(|entry| pattern.with_file_name(entry.file_name()))
        .collect();
    found.sort();
    found
}

/// Whether a shell pattern of `*`, `?` and `[a-z]` matches the whole of `name`.
fn matches(pattern: &str, name: &str) -> bool {
    let (pattern, name): (Vec<char>, Vec<char>) =
        (pattern.chars().collect(), name.chars().collect());
    let (mut p, mut n) = (0, 0);
    // Where the last `*` was, and what it has swallowed: the only place to go back to.
    let mut star: Option<(usize, usize)> = None;
    while n < name.len() {
        let step = match pattern.get(p) {
            Some('*') => {
                star = Some((p + 1, n));
                p += 1;
                continue;
            }
            Some('?') => Some(p + 1),
            Some('[') => class(&pattern, p, name[n]),
            Some(literal) => (*literal == name[n]).then_some(p + 1),
            None => None,
        };
        match (step, star) {
            (Some(next), _) => (p, n) = (next, n + 1),
            (None, Some((after, swallowed))) => {
                star = Some((after, swallowed + 1));
                (p, n) = (after, swallowed + 1);
            }
            (None, None) => return false,
        }
    }
    pattern[p..].iter().all(|c| *c == '*')
}

/// If the class at `start` has `c`: where the pattern goes on.
fn class(pattern: &[char], start: usize, c: char) -> Option<usize> {
    let mut at = start + 1;
    let negated = pattern.get(at) == Some(&'^');
    at += usize::from(negated);
    let mut found = false;
    let first = at;
    loop {
        let low = *pattern.get(at)?;
        if low == ']' && at > first {
            break;
        }
        let high = match (pattern.get(at + 1), pattern.get(at + 2)) {
            (Some('-'), Some(high)) if *high != ']' => {
                at += 2;
                *high
            }
            _ => low,
        };
        found |= (low..=high).contains(&c);
        at += 1;
    }
    (found != negated).then_some(at + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns() {
        let cases = [
            ("*.yml", "a.yml", true),
            ("*.yml", ".yml", true),
            ("*.yml", "a.yaml", false),
            ("a*.json", "abc.json", true),
            ("a*.json", "bc.json", false),
            ("a?c.json", "abc.json", true),
            ("a[b-d]c.json", "adc.json", true),
            ("a[^b-d]c.json", "adc.json", false),
            ("a[^b-d]c.json", "aec.json", true),
            ("*a*b.yml", "xaxbxb.yml", true),
            ("*a*b.yml", "xaxbxc.yml", false),
            ("x.yml", "x.yml", true),
        ];
        for (pattern, name, expected) in cases {
            assert_eq!(matches(pattern, name), expected, "{pattern} {name}");
        }
    }
}
