//! From a load and coefficients to what it needs: sums of products, each with its unit.

use serde::Serialize;

use super::coefficients::{Coefficients, Measured, cpu_features, memory_features};

/// A load to be planned. Times are in seconds.
#[derive(Clone, Debug)]
pub(crate) struct Load {
    /// Of all targets together, at any one time.
    pub(crate) series: f64,
    pub(crate) targets: f64,
    pub(crate) interval: f64,
    pub(crate) retention: f64,
    /// Length of a block.
    pub(crate) block: f64,
    pub(crate) new_series_per_second: f64,
    pub(crate) query_samples_per_second: f64,
    pub(crate) shape: String,
}

/// How long a series that went away is still in the head, in seconds: stale for five minutes, and then until
/// the next departure, of which there is one in five minutes (`store/src/db/depart.rs`).
pub(crate) const LINGERS: f64 = 600.0;

/// The head reaches back this many blocks before the next one is cut.
const HEAD_BLOCKS: f64 = 1.5;

/// A chunk is closed when it has so many.
const SAMPLES_OF_A_CHUNK: f64 = 120.0;

/// Memory beyond the estimate that should be free: for queries, the page cache and the next block.
const HEADROOM: f64 = 1.5;

/// What a load needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Estimate {
    pub(crate) samples_per_second: f64,
    /// In the head, with those that went away a short while ago.
    pub(crate) series_in_memory: f64,
    pub(crate) memory_bytes: f64,
    /// What to give the machine or container.
    pub(crate) memory_bytes_advised: f64,
    pub(crate) cores: f64,
    /// Of blocks, for each day.
    pub(crate) disk_bytes_per_day: f64,
    /// Everything, once the retention has passed.
    pub(crate) disk_bytes: f64,
    /// Of that, head and journal.
    pub(crate) disk_head_bytes: f64,
    pub(crate) written_bytes_per_second: f64,
    /// Not compressed.
    pub(crate) network_bytes_per_second: f64,
    pub(crate) file_descriptors: f64,
}

impl Estimate {
    /// Works it out.
    ///
    /// # Errors
    /// A shape that was not measured.
    pub(crate) fn new(load: &Load, by: &Coefficients) -> Result<Self, String> {
        let shape = by.shape(&load.shape)?;
        let samples = load.series / load.interval;
        let body_bytes = samples * shape.body_bytes_per_sample;
        let series_in_memory = load.series + load.new_series_per_second * LINGERS;
        let as_measured = Measured {
            shape: load.shape.clone(),
            targets: load.targets,
            series: load.series,
            head_series: series_in_memory,
            interval_seconds: load.interval,
            block_seconds: load.block,
            scrapes_per_second: load.targets / load.interval,
            samples_per_second: samples,
            body_bytes_per_second: body_bytes,
            new_series_per_second: load.new_series_per_second,
            ..Measured::default()
        };
        let sum = |features: Vec<f64>, coefficients: &[f64]| {
            features.iter().zip(coefficients).map(|(x, c)| x * c).sum::<f64>()
        };
        let (cpu, memory, disk) = (&by.cpu_seconds, &by.memory_bytes, &by.disk_bytes);
        let cores = sum(
            cpu_features(&as_measured),
            &[
                cpu.per_second,
                cpu.per_scrape,
                cpu.per_sample,
                cpu.per_body_byte,
                cpu.per_new_series,
            ],
        ) + load.query_samples_per_second * cpu.per_query_sample;
        let memory_bytes = sum(
            memory_features(&as_measured),
            &[memory.per_process, memory.per_target, memory.per_series, memory.per_body_byte],
        );
        let series_of_a_block = load.series + load.new_series_per_second * load.block;
        let block_bytes = samples * load.block * shape.chunk_bytes_per_sample
            + series_of_a_block * shape.index_bytes_per_series;
        let blocks = load.retention / load.block;
        // Closed chunks, and a journal of those that are open, twice over: it is cut a whole segment at a time.
        let head_bytes = samples * load.block * HEAD_BLOCKS * shape.chunk_bytes_per_sample
            + series_in_memory * 2.0 * SAMPLES_OF_A_CHUNK * disk.journal_per_sample;
        Ok(Estimate {
            samples_per_second: samples,
            series_in_memory,
            memory_bytes,
            memory_bytes_advised: memory_bytes * HEADROOM,
            cores,
            disk_bytes_per_day: block_bytes * 86_400.0 / load.block,
            // One block is already written while the oldest one is still there.
            disk_bytes: block_bytes * (blocks.ceil() + 1.0) + head_bytes,
            disk_head_bytes: head_bytes,
            written_bytes_per_second: block_bytes / load.block
                + samples * disk.written_per_sample
                + load.new_series_per_second * disk.written_per_new_series,
            network_bytes_per_second: body_bytes,
            file_descriptors: by.descriptors.per_process
                + load.targets * by.descriptors.per_target
                // A block that is open has a file for its index and one for each half GiB of chunks.
                + blocks.ceil() * (1.0 + (block_bytes / f64::from(1u32 << 29)).ceil()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::coefficients::example;
    use super::*;

    #[test]
    fn parts_add_up() {
        let by = Coefficients::fitted(String::new(), String::new(), example(), 1e-8).unwrap();
        let load = Load {
            series: 1e6,
            targets: 1000.0,
            interval: 10.0,
            retention: 10.0 * 86_400.0,
            block: 7200.0,
            new_series_per_second: 10.0,
            query_samples_per_second: 1e6,
            shape: "kubernetes".to_owned(),
        };
        let found = Estimate::new(&load, &by).unwrap();
        let in_memory = 1e6 + 10.0 * LINGERS;
        // 4 bytes of chunk for each of 720 samples in a block, and 60 of index for each of its series.
        let block = 1e6 * 720.0 * 4.0 + (1e6 + 72_000.0) * 60.0;
        let head = 1e5 * 7200.0 * 1.5 * 4.0 + in_memory * 2.0 * 120.0 * 2.0;
        let memory = 40e6 + 5000.0 * 1000.0 + 300.0 * in_memory + 0.5 * 200e6;
        for (name, found, expected) in [
            ("samples", found.samples_per_second, 1e5),
            ("series", found.series_in_memory, in_memory),
            ("memory", found.memory_bytes, memory),
            ("advised", found.memory_bytes_advised, memory * 1.5),
            ("cores", found.cores, 0.01 + 20e-6 * 100.0 + 1e5 * (100e-9 + 200e-9) + 5e-5 + 0.01),
            ("a day", found.disk_bytes_per_day, block * 12.0),
            ("head", found.disk_head_bytes, head),
            ("disk", found.disk_bytes, block * 121.0 + head),
            ("written", found.written_bytes_per_second, block / 7200.0 + 3e5 + 2000.0),
            ("network", found.network_bytes_per_second, 2e7),
            // 120 blocks: an index each, and six files of chunks of half a GiB.
            ("descriptors", found.file_descriptors, 30.0 + 1000.0 + 120.0 * 7.0),
        ] {
            assert!((found / expected - 1.0).abs() < 1e-3, "{name}: {found}, not {expected}");
        }
        let other = Load { shape: "cube".to_owned(), ..load };
        assert!(Estimate::new(&other, &by).unwrap_err().contains("not \"cube\""));
    }
}
