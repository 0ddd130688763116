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

/// What this process has handed to the system to be written, in bytes, whether the disk has it or not.
pub fn written() -> Result<f64, Failure> {
    let io = fs::read_to_string("/proc/self/io")?;
    let bytes = io.lines().find_map(|line| line.strip_prefix("wchar: "));
    let bytes = bytes.and_then(|bytes| bytes.trim().parse().ok());
    bytes.ok_or_else(|| "/proc/self/io has no wchar".into())
}

fn status(field: &str) -> Result<f64, Failure> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix(field));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB")).unwrap_or_default();
    let kib: f64 = kib.parse().map_err(|_| format!("/proc/self/status has no {field} in kB"))?;
    Ok(kib * 1024.0)
}
