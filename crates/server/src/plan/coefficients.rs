//! What a server needs for each process, target, series, sample, …: measured by `unladen loadtest --calibrate`
//! and kept as JSON. Those that are built in say when and where they were measured.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

/// The version of the file's layout.
const FORMAT: u32 = 2;

/// Everything that was measured.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Coefficients {
    format: u32,
    /// When, RFC 3339.
    pub(crate) date: String,
    /// The version that was measured.
    pub(crate) unladen: String,
    /// Where, on one line.
    pub(crate) machine: String,
    /// How many wanted to run there, at most: beside much else, processor time is estimated too high.
    pub(crate) load_average: f64,
    pub(crate) cpu_seconds: Cpu,
    pub(crate) memory_bytes: Memory,
    pub(crate) disk_bytes: Disk,
    pub(crate) descriptors: Descriptors,
    /// By the name of the fleet's shape.
    pub(crate) shapes: BTreeMap<String, Shape>,
    /// How far the fitted sums are from what was measured.
    pub(crate) errors: Errors,
    /// What was measured, for whoever wants to fit it otherwise.
    pub(crate) loads: Vec<Measured>,
}

/// Processor time.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Cpu {
    pub(crate) per_second: f64,
    pub(crate) per_scrape: f64,
    pub(crate) per_sample: f64,
    pub(crate) per_body_byte: f64,
    pub(crate) per_new_series: f64,
    /// Of those that queries read.
    pub(crate) per_query_sample: f64,
}

/// Resident memory.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Memory {
    pub(crate) per_process: f64,
    pub(crate) per_target: f64,
    /// Of the head: those that come, and those that went away a short while ago.
    pub(crate) per_series: f64,
    /// Of all targets' bodies once.
    pub(crate) per_body_byte: f64,
}

/// What is written, besides what shapes say of blocks.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Disk {
    /// Of the journal, until what stands in it is in a block.
    pub(crate) journal_per_sample: f64,
    /// Handed to the file system, besides blocks.
    pub(crate) written_per_sample: f64,
    pub(crate) written_per_new_series: f64,
}

/// Open file descriptors.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Descriptors {
    pub(crate) per_process: f64,
    pub(crate) per_target: f64,
}

/// What depends on what targets expose.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Shape {
    /// Not compressed.
    pub(crate) body_bytes_per_sample: f64,
    /// Of a block's chunks.
    pub(crate) chunk_bytes_per_sample: f64,
    /// Of a block's index, for each series in it.
    pub(crate) index_bytes_per_series: f64,
}

/// The relative residuals of the sums.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Errors {
    pub(crate) cpu: Residual,
    pub(crate) memory: Residual,
    pub(crate) disk: Residual,
}

/// Root of the mean square, and the largest.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Residual {
    pub(crate) rms: f64,
    pub(crate) worst: f64,
}

/// A load that was measured, and what came out.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Measured {
    pub(crate) shape: String,
    pub(crate) targets: f64,
    /// Of all targets together.
    pub(crate) series: f64,
    /// In the head in the mean of the time, with those that went away.
    pub(crate) head_series: f64,
    pub(crate) interval_seconds: f64,
    /// Length of a block.
    pub(crate) block_seconds: f64,
    pub(crate) scrapes_per_second: f64,
    pub(crate) samples_per_second: f64,
    pub(crate) body_bytes_per_second: f64,
    pub(crate) new_series_per_second: f64,
    pub(crate) cores: f64,
    pub(crate) rss_bytes: f64,
    pub(crate) written_bytes_per_second: f64,
    pub(crate) descriptors: f64,
    pub(crate) journal_bytes_per_sample: f64,
    pub(crate) chunk_bytes_per_sample: f64,
    pub(crate) index_bytes_per_series: f64,
    /// Of the last minute, when it ended.
    pub(crate) load_average: f64,
}

impl Measured {
    /// What of that which was written became blocks.
    fn block_bytes_per_second(&self) -> f64 {
        let series = self.series + self.new_series_per_second * self.block_seconds;
        self.samples_per_second * self.chunk_bytes_per_sample
            + series * self.index_bytes_per_series / self.block_seconds
    }
}

impl Coefficients {
    /// Those that are built in.
    ///
    /// # Errors
    /// A file of ours that we can't read: a fault of ours.
    pub(crate) fn built_in() -> Result<Self, String> {
        Coefficients::read(include_str!("coefficients.json"))
            .map_err(|error| format!("internal: the coefficients that are built in: {error}"))
    }

    /// Those of a file.
    ///
    /// # Errors
    /// It can't be read, or isn't one that `loadtest --calibrate` wrote.
    pub(crate) fn load(path: &Path) -> Result<Self, String> {
        let text = std::fs::read_to_string(path)
            .map_err(|error| format!("{}: {error}", path.display()))?;
        Coefficients::read(&text).map_err(|error| {
            format!(
                "{}: {error}: unladen loadtest --calibrate=FILE writes such files",
                path.display()
            )
        })
    }

    fn read(text: &str) -> Result<Self, String> {
        let read: Coefficients = serde_json::from_str(text).map_err(|error| error.to_string())?;
        if read.format != FORMAT {
            return Err(format!("it has format {}, and {FORMAT} is understood", read.format));
        }
        Ok(read)
    }

    /// As they stand in a file.
    pub(crate) fn text(&self) -> String {
        // A tree of numbers and strings: it can always be written.
        serde_json::to_string_pretty(self).unwrap_or_default() + "\n"
    }

    /// What is known of a shape.
    ///
    /// # Errors
    /// The names of those that were measured.
    pub(crate) fn shape(&self, name: &str) -> Result<&Shape, String> {
        self.shapes.get(name).ok_or_else(|| {
            let known: Vec<&str> = self.shapes.keys().map(String::as_str).collect();
            format!("--shape is one of {}, which were measured, not {name:?}", known.join(", "))
        })
    }

    /// Works the coefficients out of what was measured.
    ///
    /// # Errors
    /// Loads that say nothing: none at all, or none with a block.
    pub(crate) fn fitted(
        date: String,
        machine: String,
        loads: Vec<Measured>,
        per_query_sample: f64,
    ) -> Result<Self, String> {
        let fit = |what: &str, features: fn(&Measured) -> Vec<f64>, of: fn(&Measured) -> f64| {
            fit(&loads, what, features, of)
        };
        let cpu = fit("CPU", cpu_features, |load| load.cores)?;
        let memory = fit("memory", memory_features, |load| load.rss_bytes)?;
        let written = fit(
            "what is written",
            // The first part is what is rounded up to whole pages, again and again.
            |load| vec![1.0, load.samples_per_second, load.new_series_per_second],
            // What blocks have is known for each shape.
            |load| load.written_bytes_per_second - load.block_bytes_per_second(),
        )?;
        let descriptors =
            fit("descriptors", |load| vec![1.0, load.targets], |load| load.descriptors)?;
        let residual = |fit: &super::fit::Fit| Residual { rms: fit.rms, worst: fit.worst };
        let mut all = Coefficients {
            format: FORMAT,
            date,
            unladen: env!("CARGO_PKG_VERSION").to_owned(),
            machine,
            load_average: loads.iter().map(|load| load.load_average).fold(0.0, f64::max),
            cpu_seconds: Cpu {
                per_second: cpu.coefficients[0],
                per_scrape: cpu.coefficients[1],
                per_sample: cpu.coefficients[2],
                per_body_byte: cpu.coefficients[3],
                per_new_series: cpu.coefficients[4],
                per_query_sample,
            },
            memory_bytes: Memory {
                per_process: memory.coefficients[0],
                per_target: memory.coefficients[1],
                per_series: memory.coefficients[2],
                per_body_byte: memory.coefficients[3],
            },
            disk_bytes: Disk {
                journal_per_sample: journal(&loads),
                written_per_sample: written.coefficients[1],
                written_per_new_series: written.coefficients[2],
            },
            descriptors: Descriptors {
                per_process: descriptors.coefficients[0],
                per_target: descriptors.coefficients[1],
            },
            shapes: shapes(&loads),
            errors: Errors {
                cpu: residual(&cpu),
                memory: residual(&memory),
                disk: Residual::default(),
            },
            loads,
        };
        all.errors.disk = all.disk_residual();
        if all.shapes.is_empty() {
            return Err("no load has written a block: the disk cannot be estimated".to_owned());
        }
        Ok(all)
    }

    /// How far loads of a shape are from the shape's mean.
    fn disk_residual(&self) -> Residual {
        let mut worst = 0f64;
        let mut squares = 0.0;
        let mut count = 0.0;
        for load in self.loads.iter().filter(|load| load.chunk_bytes_per_sample > 0.0) {
            let Some(shape) = self.shapes.get(&load.shape) else { continue };
            let error = (shape.chunk_bytes_per_sample / load.chunk_bytes_per_sample - 1.0).abs();
            worst = worst.max(error);
            squares += error * error;
            count += 1.0;
        }
        Residual { rms: if count > 0.0 { f64::sqrt(squares / count) } else { 0.0 }, worst }
    }
}

/// What processor time is explained by, as in [`Cpu`].
pub(super) fn cpu_features(load: &Measured) -> Vec<f64> {
    vec![
        1.0,
        load.scrapes_per_second,
        load.samples_per_second,
        load.body_bytes_per_second,
        load.new_series_per_second,
    ]
}

/// What memory is explained by, as in [`Memory`].
pub(super) fn memory_features(load: &Measured) -> Vec<f64> {
    // Also of targets that were not always scraped in time.
    let bodies = load.series * load.body_bytes_per_second / load.samples_per_second;
    vec![1.0, load.targets, load.head_series, bodies]
}

/// Fits a figure to its features; `what` it is stands in the error.
fn fit(
    loads: &[Measured],
    what: &str,
    features: fn(&Measured) -> Vec<f64>,
    of: fn(&Measured) -> f64,
) -> Result<super::fit::Fit, String> {
    let rows: Vec<Vec<f64>> = loads.iter().map(features).collect();
    let measured: Vec<f64> = loads.iter().map(of).collect();
    super::fit::least_squares(&rows, &measured)
        .ok_or_else(|| format!("{what} cannot be fitted: a load took none, or there was none"))
}

/// Bytes of journal for a sample, weighted by samples: whole pages are much for a journal that has hardly any.
fn journal(loads: &[Measured]) -> f64 {
    let samples = loads.iter().map(|load| load.samples_per_second).sum::<f64>();
    let bytes = loads.iter().map(|load| load.journal_bytes_per_sample * load.samples_per_second);
    bytes.sum::<f64>() / samples
}

/// The means of loads of the same shape.
fn shapes(loads: &[Measured]) -> BTreeMap<String, Shape> {
    let mut shapes = BTreeMap::new();
    for load in loads {
        let same: Vec<&Measured> = loads
            .iter()
            .filter(|one| one.shape == load.shape && one.chunk_bytes_per_sample > 0.0)
            .collect();
        let mean = |of: fn(&Measured) -> f64| {
            same.iter().map(|one| of(one)).sum::<f64>() / same.len().max(1) as f64
        };
        if same.is_empty() {
            continue;
        }
        shapes.insert(
            load.shape.clone(),
            Shape {
                body_bytes_per_sample: mean(|one| {
                    one.body_bytes_per_second / one.samples_per_second
                }),
                chunk_bytes_per_sample: mean(|one| one.chunk_bytes_per_sample),
                index_bytes_per_series: mean(|one| one.index_bytes_per_series),
            },
        );
    }
    shapes
}

/// Loads as a server with round coefficients would take them: each has much of something else.
#[cfg(test)]
pub(super) fn example() -> Vec<Measured> {
    let load = |shape: &str, targets: f64, series: f64, interval: f64, bytes: f64, new: f64| {
        let samples = series / interval;
        let scrapes = targets / interval;
        let mut load = Measured {
            shape: shape.to_owned(),
            targets,
            series,
            head_series: series + 10.0 * new,
            interval_seconds: interval,
            block_seconds: 120.0 * interval,
            scrapes_per_second: scrapes,
            samples_per_second: samples,
            body_bytes_per_second: samples * bytes,
            new_series_per_second: new,
            cores: 0.01 + 20e-6 * scrapes + 100e-9 * samples + 1e-9 * samples * bytes + 5e-6 * new,
            rss_bytes: 40e6
                + 5000.0 * targets
                + 300.0 * (series + 10.0 * new)
                + 0.5 * series * bytes,
            written_bytes_per_second: 3.0 * samples + 200.0 * new,
            descriptors: 30.0 + targets,
            journal_bytes_per_sample: 2.0,
            chunk_bytes_per_sample: bytes / 50.0,
            index_bytes_per_series: 60.0,
            load_average: 0.5,
        };
        load.written_bytes_per_second += load.block_bytes_per_second();
        load
    };
    vec![
        load("mixed", 1.0, 10.0, 1.0, 80.0, 0.0),
        load("mixed", 200.0, 50_000.0, 0.2, 80.0, 0.0),
        load("node", 20.0, 50_000.0, 0.2, 60.0, 0.0),
        load("kubernetes", 100.0, 50_000.0, 0.2, 200.0, 0.0),
        load("mixed", 1000.0, 20_000.0, 0.2, 80.0, 0.0),
        load("mixed", 100.0, 50_000.0, 0.2, 80.0, 1000.0),
        load("node", 300.0, 150_000.0, 0.5, 60.0, 0.0),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fitted() -> Coefficients {
        Coefficients::fitted("now".to_owned(), "here".to_owned(), example(), 1e-8).unwrap()
    }

    #[test]
    fn what_made_the_loads_comes_back() {
        let found = fitted();
        let (cpu, memory, disk) = (&found.cpu_seconds, &found.memory_bytes, &found.disk_bytes);
        for (name, found, known) in [
            ("cpu per second", cpu.per_second, 0.01),
            ("cpu per scrape", cpu.per_scrape, 20e-6),
            ("cpu per sample", cpu.per_sample, 100e-9),
            ("cpu per byte", cpu.per_body_byte, 1e-9),
            ("cpu per new series", cpu.per_new_series, 5e-6),
            ("memory per process", memory.per_process, 40e6),
            ("memory per target", memory.per_target, 5000.0),
            ("memory per series", memory.per_series, 300.0),
            ("memory per byte", memory.per_body_byte, 0.5),
            ("journal", disk.journal_per_sample, 2.0),
            ("written", disk.written_per_sample, 3.0),
            ("written per new series", disk.written_per_new_series, 200.0),
            ("descriptors", found.descriptors.per_process, 30.0),
            ("descriptors per target", found.descriptors.per_target, 1.0),
            ("chunks", found.shapes["kubernetes"].chunk_bytes_per_sample, 4.0),
            ("bodies", found.shapes["node"].body_bytes_per_sample, 60.0),
        ] {
            assert!((found / known - 1.0).abs() < 1e-3, "{name}: {found} for {known}");
        }
        assert!(
            found.errors.cpu.worst < 1e-6 && found.errors.disk.worst < 1e-6,
            "{:?}",
            found.errors
        );
    }

    #[test]
    fn files_are_read_as_they_were_written() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("c.json");
        let found = fitted();
        std::fs::write(&path, found.text()).unwrap();
        let read = Coefficients::load(&path).unwrap();
        // The last digit of a number may change on the way.
        let (read_cpu, cpu) = (read.cpu_seconds.per_sample, found.cpu_seconds.per_sample);
        assert!((read_cpu / cpu - 1.0).abs() < 1e-12);
        assert!(read.shapes.keys().eq(found.shapes.keys()));
        assert_eq!(read.loads.len(), found.loads.len());
        for (text, expected) in [
            ("{", "c.json: EOF while parsing"),
            ("{}", "missing field"),
            (
                &found.text().replace("\"format\": 2", "\"format\": 1"),
                "it has format 1, and 2 is understood",
            ),
        ] {
            std::fs::write(&path, text).unwrap();
            let said = Coefficients::load(&path).unwrap_err();
            assert!(said.contains(expected), "{said}");
            assert!(said.contains("loadtest --calibrate=FILE"), "{said}");
        }
        let said = Coefficients::load(Path::new("/no/such/file")).unwrap_err();
        assert!(said.starts_with("/no/such/file: "), "{said}");
    }

    #[test]
    fn what_says_nothing_is_refused() {
        let fit =
            |loads: Vec<Measured>| Coefficients::fitted(String::new(), String::new(), loads, 0.0);
        assert!(fit(Vec::new()).unwrap_err().contains("cannot be fitted"));
        let without = |change: fn(&mut Measured)| {
            let mut loads = example();
            loads.iter_mut().for_each(change);
            fit(loads).unwrap_err()
        };
        assert!(without(|load| load.cores = 0.0).contains("CPU cannot be fitted"));
        assert!(
            without(|load| load.chunk_bytes_per_sample = 0.0)
                .contains("no load has written a block")
        );
    }

    #[test]
    fn those_that_are_built_in_are_whole() {
        let built_in = Coefficients::built_in().unwrap();
        assert!(built_in.loads.len() >= 8);
        for shape in ["node", "kubernetes", "histogram", "broker", "mixed"] {
            let known = built_in.shape(shape).unwrap();
            assert!(
                known.body_bytes_per_sample > 10.0 && known.chunk_bytes_per_sample > 0.1,
                "{shape}"
            );
        }
        assert!(built_in.memory_bytes.per_series > 50.0);
        assert!(
            built_in.shape("cube").unwrap_err().contains("--shape is one of broker, histogram")
        );
    }
}
