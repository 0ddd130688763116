//! Resident memory of this process, and its peak.

use std::fs;

use crate::Failure;

/// Lets the peak begin again at what is resident now.
pub fn reset_peak() -> Result<(), Failure> {
    fs::write("/proc/self/clear_refs", "5").map_err(|error| {
        format!("/proc/self/clear_refs: {error}: the peak can't be measured").into()
    })
}

/// The most that was resident since [`reset_peak`], in bytes.
pub fn peak() -> Result<f64, Failure> {
    status("VmHWM:")
}

/// What is resident now, in bytes.
pub fn resident() -> Result<f64, Failure> {
    status("VmRSS:")
}

/// What is resident now and belongs to no file, in bytes.
pub fn anonymous() -> Result<f64, Failure> {
    status("RssAnon:")
}

fn status(field: &str) -> Result<f64, Failure> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix(field));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB")).unwrap_or_default();
    let kib: f64 = kib.parse().map_err(|_| format!("/proc/self/status has no {field} in kB"))?;
    Ok(kib * 1024.0)
}
