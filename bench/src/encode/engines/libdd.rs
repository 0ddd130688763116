//! libdd-profiling: names in, everything anew for each profile, compressed with zstd in any case.

use std::time::Duration;

use bench::Failure;
use libdd_profiling::api;
use libdd_profiling::internal::Profile;

use super::{Cost, Engine, Half};
use crate::workload::{CODE, Workload};

#[derive(Default)]
pub struct Libdd {
    compressed: Vec<u8>,
}

fn record(workload: &Workload) -> Result<Profile, Failure> {
    let types =
        [api::ValueType::new("samples", "count"), api::ValueType::new("wall", "nanoseconds")];
    let period = api::Period { r#type: types[1], value: 10_000_000 };
    let mut profile = Profile::try_new(&types, Some(period))?;
    let mapping = api::Mapping {
        memory_start: CODE,
        memory_limit: CODE + 64 * workload.size.functions as u64,
        file_offset: 0,
        filename: "/usr/bin/program",
        build_id: "0123456789abcdef",
    };
    for sample in workload.samples() {
        let location = |&f: &u32| {
            let function = &workload.functions[f as usize];
            api::Location {
                mapping,
                function: api::Function {
                    name: &function.name,
                    system_name: &function.name,
                    filename: &function.file,
                },
                address: function.address,
                line: function.line.into(),
            }
        };
        let label = |key, str| api::Label { key, str, num: 0, num_unit: "" };
        let sample = api::Sample {
            locations: workload.stacks[sample.stack].iter().map(location).collect(),
            values: &sample.values,
            labels: vec![
                label("thread", &workload.threads[sample.thread]),
                label("endpoint", &workload.endpoints[sample.endpoint]),
            ],
        };
        profile.try_add_sample(sample, None)?;
    }
    Ok(profile)
}

impl Engine for Libdd {
    fn cold(&mut self, workload: &Workload) -> Result<Cost, Failure> {
        let (profile, record) = Half::of(|| record(workload));
        let profile = profile?;
        let (encoded, encode) = Half::of(|| {
            profile.serialize_into_compressed_pprof(None, Some(Duration::from_nanos(1)))
        });
        self.compressed = encoded?.buffer;
        Ok(Cost { record, encode })
    }

    fn profile(&mut self, _workload: &Workload) -> Result<Vec<u8>, Failure> {
        Ok(zstd::decode_all(&*self.compressed)?)
    }
}
