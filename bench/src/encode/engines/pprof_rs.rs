//! pprof-rs: a map from stacks of names to counts, from which a message is built. It has one label, the
//! thread, and one value, the count.

use std::collections::HashMap;
use std::path::PathBuf;
use std::time::SystemTime;

use bench::Failure;
use pprof::protos::Message as _;
use pprof::{Frames, Report, Symbol};

use super::{Cost, Engine, Half};
use crate::workload::Workload;

#[derive(Default)]
pub struct PprofRs {
    written: Vec<u8>,
}

/// What its `Report` is built from; addresses are looked up beforehand, which it does for every sample.
fn record(workload: &Workload) -> HashMap<Frames, isize> {
    let mut data = HashMap::new();
    for sample in workload.samples() {
        let frame = |&f: &u32| {
            let function = &workload.functions[f as usize];
            vec![Symbol {
                name: Some(function.name.clone().into_bytes()),
                addr: None,
                lineno: Some(function.line),
                filename: Some(PathBuf::from(&function.file)),
            }]
        };
        let frames = Frames {
            frames: workload.stacks[sample.stack].iter().map(frame).collect(),
            thread_name: workload.threads[sample.thread].clone(),
            thread_id: sample.thread as u64,
            sample_timestamp: SystemTime::UNIX_EPOCH,
        };
        *data.entry(frames).or_insert(0) += sample.values[0] as isize;
    }
    data
}

impl Engine for PprofRs {
    fn cold(&mut self, workload: &Workload) -> Result<Cost, Failure> {
        self.written = Vec::new();
        let (data, record) = Half::of(|| record(workload));
        let report = Report { data, timing: Default::default() };
        let (written, encode) = Half::of(|| -> Result<Vec<u8>, Failure> {
            let profile = report.pprof()?;
            let mut written = Vec::new();
            profile.encode(&mut written)?;
            Ok(written)
        });
        self.written = written?;
        Ok(Cost { record, encode })
    }

    fn profile(&mut self, _workload: &Workload) -> Result<Vec<u8>, Failure> {
        Ok(self.written.clone())
    }

    fn carries(&self) -> (&'static [&'static str], usize) {
        (&["thread"], 1)
    }
}
