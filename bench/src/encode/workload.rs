//! What is recorded: `bench/peers/WORKLOADS.md`, "encode".

use bench::Failure;
use bench::options::Options;
use wire::pprof::{Document, LabelValue};

/// Samples of each stack, which differ in their labels.
pub const SAMPLES: usize = 5;
/// Values of the label `endpoint`.
const ENDPOINTS: usize = 50;

/// Different ways by which stacks come to where they differ.
const SHARED: usize = 100;

/// Where the functions' code begins, and what each has.
pub const CODE: u64 = 0x40_0000;
const FUNCTION: u64 = 64;

/// How much of it.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    pub stacks: usize,
    pub depth: usize,
    pub functions: usize,
    pub files: usize,
}

impl Size {
    /// As the parent hands it to the child.
    pub fn arguments(self) -> Vec<String> {
        let Size { stacks, depth, functions, files } = self;
        let settings = [
            format!("stacks={stacks}"),
            format!("depth={depth}"),
            format!("functions={functions}"),
            format!("files={files}"),
        ];
        settings.into_iter().flat_map(|setting| ["--set".to_owned(), setting]).collect()
    }

    /// Reads what [`Size::arguments`] gave.
    pub fn read(options: &Options) -> Result<Size, Failure> {
        Ok(Size {
            stacks: options.count("stacks")?,
            depth: options.count("depth")?,
            functions: options.count("functions")?,
            files: options.count("files")?,
        })
    }

    /// All samples.
    pub fn samples(self) -> usize {
        self.stacks * SAMPLES
    }
}

/// A function as everybody names it.
pub struct Function {
    pub name: String,
    pub file: String,
    pub line: u32,
    pub address: u64,
}

/// The program's own data, made before anything is measured.
pub struct Workload {
    pub size: Size,
    pub functions: Vec<Function>,
    /// Per stack the functions, innermost first.
    pub stacks: Vec<Vec<u32>>,
    pub threads: Vec<String>,
    pub endpoints: Vec<String>,
}

/// One sample: which stack, labels and values.
#[derive(Clone, Copy)]
pub struct Sample {
    pub stack: usize,
    pub thread: usize,
    pub endpoint: usize,
    pub values: [i64; 2],
}

impl Workload {
    pub fn new(size: Size) -> Self {
        let functions = (0..size.functions).map(|f| Function {
            name: format!("crate::module{}::function_{f}", f % size.files),
            file: format!("src/module{}.rs", f % size.files),
            line: (f % 500 + 1) as u32,
            address: CODE + FUNCTION * f as u64 + 16,
        });
        let stack = |s: usize| {
            // The inner fifth is the stack's own, the rest that of many.
            let (mut own, mut shared) = (s as u64 + 1, (size.stacks + s % SHARED + 1) as u64);
            let frame = |d| {
                let state = if d < size.depth / 5 { &mut own } else { &mut shared };
                *state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                ((*state >> 33) % size.functions as u64) as u32
            };
            (0..size.depth).map(frame).collect()
        };
        Workload {
            size,
            functions: functions.collect(),
            stacks: (0..size.stacks).map(stack).collect(),
            threads: (0..SAMPLES).map(|k| format!("worker-{k}")).collect(),
            endpoints: (0..ENDPOINTS).map(|e| format!("/endpoint/{e}")).collect(),
        }
    }

    /// The samples, all of the first label's first value, then of its second.
    pub fn samples(&self) -> impl Iterator<Item = Sample> + use<> {
        let stacks = self.size.stacks;
        (0..SAMPLES).flat_map(move |k| {
            (0..stacks).map(move |s| Sample {
                stack: s,
                thread: k,
                endpoint: (s + k) % ENDPOINTS,
                values: [1 + k as i64, 1000 * (s as i64 + 1) + k as i64],
            })
        })
    }

    /// What all readers have to find.
    pub fn digest(&self, labels: &[&str], values: usize) -> Digest {
        let mut digest = Digest::default();
        for sample in self.samples() {
            let stack = self.stacks[sample.stack].iter();
            let names = stack.map(|&f| self.functions[f as usize].name.as_bytes());
            let known = [
                ("endpoint", &self.endpoints[sample.endpoint]),
                ("thread", &self.threads[sample.thread]),
            ];
            let labels = known.iter().filter(|(key, _)| labels.contains(key));
            let labels = labels.map(|(key, value)| format!("{key}={value}")).collect();
            digest.add(names, labels, &sample.values[..values]);
        }
        digest
    }
}

/// What a profile says, in any order of its samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Digest {
    pub samples: u64,
    /// The sum of each column.
    pub totals: [i64; 2],
    /// The sum over all samples of the FNV-1a of their frames' names, labels and values.
    pub hash: u64,
}

impl Digest {
    /// Adds a sample. Labels come as `key=value`.
    fn add<'n>(
        &mut self,
        names: impl Iterator<Item = &'n [u8]>,
        mut labels: Vec<String>,
        values: &[i64],
    ) {
        let mut hash = 0xcbf2_9ce4_8422_2325_u64;
        let mut take = |bytes: &[u8]| {
            for &byte in bytes.iter().chain(b"\n") {
                hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
            }
        };
        names.for_each(&mut take);
        labels.sort_unstable();
        labels.iter().for_each(|label| take(label.as_bytes()));
        values.iter().for_each(|value| take(value.to_string().as_bytes()));
        self.samples += 1;
        for (total, value) in self.totals.iter_mut().zip(values) {
            *total += value;
        }
        self.hash = self.hash.wrapping_add(hash);
    }

    /// Reads a profile, of which the first `values` columns count.
    pub fn read(profile: &[u8], values: usize) -> Result<Digest, Failure> {
        let document = Document::read(profile).map_err(|error| format!("{error}"))?;
        let mut digest = Digest::default();
        for sample in document.samples() {
            let name = |frame: wire::pprof::Frame<'_, '_>| {
                frame.function.map_or(&b""[..], |function| document.string(function.name))
            };
            let names: Vec<&[u8]> = document.frames(sample.locations).map(name).collect();
            let labels = sample.labels.map(|label| match label.value {
                LabelValue::Text(text) => {
                    format!("{}={}", document.text(label.key), document.text(text))
                }
                LabelValue::Number { value, .. } => {
                    format!("{}={value}", document.text(label.key))
                }
            });
            let labels = labels.collect();
            let all: Vec<i64> = sample.values.collect();
            digest.add(names.into_iter(), labels, &all[..values.min(all.len())]);
        }
        Ok(digest)
    }
}
