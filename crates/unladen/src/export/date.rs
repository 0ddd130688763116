//! Times as people read them: RFC 3339.

use std::fmt;

/// Days from 1970 to a date of the Gregorian calendar.
fn days_to(year: i64, month: i64, day: i64) -> i64 {
    // Years from March on, so that the day that comes and goes is the last.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days_before_month = (153 * month + 2) / 5;
    365 * year + year.div_euclid(4) - year.div_euclid(100)
        + year.div_euclid(400)
        + days_before_month
        + day
        - 1
        - 719_468
}

/// Nanoseconds since 1970, shown as RFC 3339 with milliseconds.
pub(super) struct Rfc3339(pub(super) u64);

impl fmt::Display for Rfc3339 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = (self.0 / 1_000_000_000) as i64;
        let (days, second) = (seconds / 86_400, seconds % 86_400);
        // The year that `days` is in, off by one at most; then the month.
        let mut year = 1970 + days / 366;
        while days_to(year + 1, 1, 1) <= days {
            year += 1;
        }
        let month = (1..=12).rev().find(|month| days_to(year, *month, 1) <= days).unwrap_or(1);
        let day = 1 + days - days_to(year, month, 1);
        let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
        let milliseconds = self.0 / 1_000_000 % 1000;
        write!(
            f,
            "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{milliseconds:03}Z"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (784_111_777, "1994-11-06T08:49:37.000Z"),
            (951_782_400, "2000-02-29T00:00:00.000Z"),
            (4_107_542_399, "2100-02-28T23:59:59.000Z"),
            (4_107_542_400, "2100-03-01T00:00:00.000Z"),
            (1_798_761_599, "2026-12-31T23:59:59.000Z"),
        ] {
            assert_eq!(Rfc3339(seconds * 1_000_000_000).to_string(), text);
        }
    }
}
