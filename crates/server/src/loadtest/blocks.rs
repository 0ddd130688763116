//! What the blocks of a data directory have in them, and how large they are: `meta.json`, `index` and
//! `chunks/` of each.

use std::path::Path;

use serde::{Deserialize, Serialize};

/// All blocks of a directory together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Blocks {
    pub(super) count: u64,
    pub(super) samples: u64,
    pub(super) series: u64,
    pub(super) chunk_bytes: u64,
    pub(super) index_bytes: u64,
}

#[derive(Deserialize)]
struct Meta {
    stats: Stats,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Stats {
    num_samples: u64,
    num_series: u64,
}

impl Blocks {
    /// Reads those in `data`; directories that are none, or that are just being written, are passed over.
    pub(super) fn read(data: &Path) -> Self {
        let mut sum = Blocks::default();
        let Ok(entries) = std::fs::read_dir(data) else { return sum };
        for entry in entries.flatten() {
            let block = entry.path();
            let Ok(meta) = std::fs::read_to_string(block.join("meta.json")) else { continue };
            let Ok(meta) = serde_json::from_str::<Meta>(&meta) else { continue };
            let length = |path: &Path| std::fs::metadata(path).map_or(0, |data| data.len());
            let chunks = std::fs::read_dir(block.join("chunks"));
            sum.count += 1;
            sum.samples += meta.stats.num_samples;
            sum.series += meta.stats.num_series;
            sum.index_bytes += length(&block.join("index"));
            sum.chunk_bytes += chunks
                .into_iter()
                .flatten()
                .flatten()
                .map(|file| length(&file.path()))
                .sum::<u64>();
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_summed() {
        let directory = tempfile::tempdir().unwrap();
        for (name, series) in [("01A", 3), ("01B", 4)] {
            let block = directory.path().join(name);
            std::fs::create_dir_all(block.join("chunks")).unwrap();
            let meta = format!(
                "{{\"version\":1,\"stats\":{{\"numSamples\":100,\"numSeries\":{series},\"numChunks\":9}}}}"
            );
            std::fs::write(block.join("meta.json"), meta).unwrap();
            std::fs::write(block.join("index"), [0; 70]).unwrap();
            std::fs::write(block.join("chunks/000001"), [0; 500]).unwrap();
            std::fs::write(block.join("chunks/000002"), [0; 50]).unwrap();
        }
        std::fs::create_dir_all(directory.path().join("01C.tmp")).unwrap();
        std::fs::create_dir_all(directory.path().join("head")).unwrap();
        let expected =
            Blocks { count: 2, samples: 200, series: 7, chunk_bytes: 1100, index_bytes: 140 };
        assert_eq!(Blocks::read(directory.path()), expected);
        assert_eq!(Blocks::read(Path::new("/no/such/place")), Blocks::default());
    }
}
