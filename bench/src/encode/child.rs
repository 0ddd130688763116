//! The child's side: builds one engine and answers `cold`, `again`, `check` and `more`.

use bench::options::Options;
use bench::protocol::Line;
use bench::{Failure, clock, engine};

use crate::engines;
use crate::workload::{Digest, Size, Workload};

/// Prepares the engine and serves the parent until its input ends.
pub fn run(name: &str, options: &Options) -> Result<(), Failure> {
    let workload = Workload::new(Size::read(options)?);
    let out = options.setting("out")?;
    let mut engine = engines::new(name, &workload)?;
    clock::pin(0);
    engine::answer(&Line::new(name), |command| {
        let mut line = Line::new(name);
        match command {
            "cold" | "again" => {
                let cost = match command {
                    "cold" => engine.cold(&workload)?,
                    _ => engine.again(&workload)?,
                };
                let kinds: &[&str] =
                    if engines::keeps(name) { &[command] } else { &["cold", "again"] };
                for kind in kinds {
                    tell(&mut line, kind, cost, workload.size.samples());
                }
            }
            "more" => {
                for (key, value) in engine.more(&workload)? {
                    line.set(key, value);
                }
            }
            "check" => {
                let profile = engine.profile(&workload)?;
                let (labels, values) = engine.carries();
                let (found, expected) =
                    (Digest::read(&profile, values)?, workload.digest(labels, values));
                if found != expected {
                    return Err(format!("{name} wrote {found:?}, expected {expected:?}").into());
                }
                line.set("bytes", profile.len());
                line.set("values", values);
                let path = format!("{out}/{name}.pb");
                std::fs::write(&path, &profile).map_err(|error| format!("{path}: {error}"))?;
                line.set("path", path);
                line.set("hash", format!("{:016x}", expected.hash));
                line.set("samples", expected.samples);
            }
            _ => return Err(format!("{command}: the commands are cold, again, check, more").into()),
        }
        Ok(line)
    })
}

fn tell(line: &mut Line, kind: &str, cost: engines::Cost, samples: usize) {
    let (record, encode) = (cost.record, cost.encode);
    line.set(&format!("{kind}_record_ns"), record.cpu_ns / samples as f64);
    line.set(&format!("{kind}_encode_ms"), encode.cpu_ns / 1e6);
    line.set(&format!("{kind}_ms"), (record.cpu_ns + encode.cpu_ns) / 1e6);
    line.set(&format!("{kind}_record_calls"), record.calls);
    line.set(&format!("{kind}_encode_calls"), encode.calls);
}
