//! Bytes that cross a process boundary, both directions; no I/O.
