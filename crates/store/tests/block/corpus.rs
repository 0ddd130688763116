//! Random series, the model that keeps them in a map, and a scratch directory to write them to.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use store::block::{Block, BlockWriter, ChunkData, Meta};
use store::chunk::{Encoder, Encoding};
use store::disk::Directory;
use store::{Disk, Labels, Matcher, Samples, Series};
use testkit::random::Random;
use ulid::Ulid;

/// Of each series its samples; values bit by bit.
pub(crate) type Model = BTreeMap<Labels, BTreeMap<i64, u64>>;

/// What the labels of the corpus are made of.
pub(crate) const NAMES: [&str; 6] = ["job", "instance", "le", "région", "a.b/c d", "zone"];

/// The marker of a series that ended.
pub(crate) const STALE: u64 = 0x7ff0_0000_0000_0002;

/// A directory that goes when the test does.
pub(crate) struct Scratch {
    pub(crate) path: PathBuf,
    pub(crate) disk: Directory,
}

impl Scratch {
    pub(crate) fn new(name: &str) -> Self {
        let path =
            std::env::temp_dir().join(format!("unladen-block-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        Scratch { disk: Directory::open(&path).unwrap(), path }
    }

    pub(crate) fn file(&self, path: impl AsRef<Path>) -> PathBuf {
        self.path.join(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

/// Up to `count` random series with samples in `from..to`.
pub(crate) fn random_model(random: &mut Random, count: usize, from: i64, to: i64) -> Model {
    let mut model = Model::new();
    for _ in 0..count {
        let mut pairs = vec![("__name__".to_owned(), format!("metric_{}", random.below(7)))];
        for name in NAMES {
            match random.below(4) {
                0 => {}
                1 => pairs.push((name.to_owned(), "0".to_owned())),
                2 => pairs.push((name.to_owned(), format!("wért {}", random.below(90)))),
                _ => pairs.push((name.to_owned(), format!("v{}", random.below(5)))),
            }
        }
        let labels = Labels::from_pairs(pairs);
        let interval = 1 + random.below((to - from) as u64 / 50) as i64;
        let mut timestamp = from + random.below(interval as u64) as i64;
        let mut samples = BTreeMap::new();
        let mut counter = 0.0;
        while timestamp < to && samples.len() < 2_000 {
            let value = match random.below(40) {
                0 => STALE,
                1 => f64::INFINITY.to_bits(),
                2 => random.next_u64(),
                _ => {
                    counter += random.below(100) as f64;
                    f64::to_bits(counter)
                }
            };
            samples.insert(timestamp, value);
            timestamp += if random.below(10) == 0 {
                1 + random.below(5 * interval as u64) as i64
            } else {
                interval
            };
        }
        if !samples.is_empty() {
            model.insert(labels, samples);
        }
    }
    model
}

/// Cuts samples into chunks of at most `most`.
pub(crate) fn chunks(samples: &BTreeMap<i64, u64>, most: usize) -> Vec<(i64, i64, Vec<u8>)> {
    let mut chunks = Vec::new();
    let mut rest = samples.iter().peekable();
    while let Some(&(&first, _)) = rest.peek() {
        let mut encoder = Encoder::new();
        let mut buffer = Vec::new();
        let mut last = first;
        for (&timestamp, &value) in rest.by_ref().take(most) {
            encoder.append_growing(&mut buffer, timestamp, f64::from_bits(value)).unwrap();
            last = timestamp;
        }
        chunks.push((first, last, buffer));
    }
    chunks
}

/// Writes the model as a block over `from..to`.
pub(crate) fn write(
    disk: &dyn Disk,
    model: &Model,
    ulid: Ulid,
    range: (i64, i64),
    segment_bytes: u64,
) -> Meta {
    let written = try_write(disk, model, ulid, range, segment_bytes).unwrap();
    written.expect("the model holds series")
}

/// As [`write`], on a disk that may fail.
pub(crate) fn try_write(
    disk: &dyn Disk,
    model: &Model,
    ulid: Ulid,
    (from, to): (i64, i64),
    segment_bytes: u64,
) -> Result<Option<Meta>, store::Error> {
    let meta = Meta::of_head(ulid, from, to);
    let mut writer = BlockWriter::with_segment_size(disk, meta, segment_bytes)?;
    for (labels, samples) in model {
        writer.series(labels)?;
        for (min_time, max_time, bytes) in chunks(samples, 120) {
            let chunk = ChunkData { min_time, max_time, encoding: Encoding::XOR, bytes: &bytes };
            writer.chunk(&chunk)?;
        }
    }
    writer.finish()
}

/// What the model answers.
pub(crate) fn expected(model: &Model, matchers: &[Matcher], from: i64, to: i64) -> Model {
    let mut found = Model::new();
    for (labels, samples) in model {
        if matchers.iter().all(|matcher| matcher.matches(labels.get(matcher.name()).unwrap_or("")))
        {
            let inside: BTreeMap<_, _> = samples
                .iter()
                .map(|(t, v)| (*t, *v))
                .filter(|(t, _)| (from..=to).contains(t))
                .collect();
            if !inside.is_empty() {
                found.insert(labels.clone(), inside);
            }
        }
    }
    found
}

/// All samples of a series.
pub(crate) fn read(series: &dyn Series) -> Result<BTreeMap<i64, u64>, store::Error> {
    let mut cursor = series.cursor();
    let mut samples = Samples::default();
    let mut length = 0;
    while cursor.next(&mut samples)? {
        assert!(samples.len() > length, "a run that is announced holds something");
        length = samples.len();
    }
    assert!(samples.timestamps.is_sorted_by(|a, b| a < b), "samples are in the order of time");
    let values = samples.values.iter().map(|value| value.to_bits());
    Ok(samples.timestamps.iter().copied().zip(values).collect())
}

/// What the block answers. Series that have chunks but no samples in the range are left out.
pub(crate) fn selected(
    block: &Arc<Block>,
    matchers: &[Matcher],
    from: i64,
    to: i64,
) -> Result<Model, store::Error> {
    let series = block.select(matchers, from, to)?;
    assert!(series.is_sorted_by(|a, b| a.labels() < b.labels()), "series are sorted");
    let mut found = Model::new();
    for series in &series {
        let samples = read(series)?;
        if !samples.is_empty() {
            found.insert(series.labels().clone(), samples);
        }
    }
    Ok(found)
}
