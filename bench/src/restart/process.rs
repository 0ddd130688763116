//! What the system tells of another process.

use bench::Failure;

/// A field of `/proc/<id>/status` in kB, as bytes.
pub fn status(id: u32, field: &str) -> Result<f64, Failure> {
    let path = format!("/proc/{id}/status");
    let status = std::fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
    let line = status.lines().find_map(|line| line.strip_prefix(field));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB")).unwrap_or_default();
    let kib: f64 = kib.parse().map_err(|_| format!("{path} has no {field} in kB"))?;
    Ok(kib * 1024.0)
}

/// CPU time of all threads so far, those that ended included, in seconds; the clock ticks every 10 ms.
pub fn cpu_seconds(id: u32) -> Result<f64, Failure> {
    let path = format!("/proc/{id}/stat");
    let stat = std::fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
    // The name, in parentheses, may hold anything.
    let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
    let tick = |index: usize| fields.split_ascii_whitespace().nth(index)?.parse::<f64>().ok();
    let ticks = tick(11).zip(tick(12)).ok_or_else(|| format!("{path} is not as expected"))?;
    Ok((ticks.0 + ticks.1) / 100.0)
}
