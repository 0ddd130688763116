//! Durations as Prometheus writes them: `1h30m`, `15s`, `500ms`, `2w`.

use std::time::Duration;

/// The units, largest first, in milliseconds. A year has 365 days.
const UNITS: [(&str, u64); 7] = [
    ("y", 365 * 86_400_000),
    ("w", 7 * 86_400_000),
    ("d", 86_400_000),
    ("h", 3_600_000),
    ("m", 60_000),
    ("s", 1_000),
    ("ms", 1),
];

/// The longest duration that Prometheus can hold: 2^63 nanoseconds, about 292 years.
const LONGEST_MS: u64 = i64::MAX as u64 / 1_000_000;

/// Reads a duration: each unit at most once, from the largest to the smallest, or a bare `0`.
///
/// # Errors
/// Says what is wrong with the text and what a duration looks like.
pub fn parse(text: &str) -> Result<Duration, String> {
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    if text.is_empty() {
        return Err("the duration is empty, write one such as 15s or 1h30m".to_owned());
    }
    let refuse = || format!("{text:?} is not a duration, write one such as 15s or 1h30m");
    let mut rest = text;
    let mut units = UNITS.as_slice();
    let mut total = 0u64;
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let (number, after) = rest.split_at(digits);
        let letters = after.bytes().take_while(u8::is_ascii_alphabetic).count();
        let (unit, after) = after.split_at(letters);
        let place =
            units.iter().position(|(name, _)| *name == unit && digits > 0).ok_or_else(refuse)?;
        let scaled = number.parse::<u64>().ok().and_then(|n| n.checked_mul(units[place].1));
        total = scaled
            .and_then(|ms| ms.checked_add(total))
            .filter(|ms| *ms <= LONGEST_MS)
            .ok_or_else(|| format!("the duration {text:?} is longer than 292 years"))?;
        units = &units[place + 1..];
        rest = after;
    }
    Ok(Duration::from_millis(total))
}

/// Writes a duration as Prometheus does; what is finer than a millisecond is left out.
pub fn format(duration: Duration) -> String {
    let mut rest = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    if rest == 0 {
        return "0s".to_owned();
    }
    let mut out = String::new();
    for (unit, size) in UNITS {
        // Years and weeks are written only where nothing is left over.
        let exact_only = unit == "y" || unit == "w";
        if rest < size || (exact_only && !rest.is_multiple_of(size)) {
            continue;
        }
        out.push_str(&format!("{}{unit}", rest / size));
        rest %= size;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_and_writes() {
        let cases = [
            ("0", 0, "0s"),
            ("0s", 0, "0s"),
            ("15s", 15_000, "15s"),
            ("90s", 90_000, "1m30s"),
            ("1h30m", 5_400_000, "1h30m"),
            ("1d", 86_400_000, "1d"),
            ("7d", 604_800_000, "1w"),
            ("8d", 691_200_000, "8d"),
            ("1y", 31_536_000_000, "1y"),
            ("1y1d", 31_622_400_000, "366d"),
            ("500ms", 500, "500ms"),
            ("1m500ms", 60_500, "1m500ms"),
            ("1w2d3h4m5s6ms", 788_645_006, "9d3h4m5s6ms"),
        ];
        for (text, ms, written) in cases {
            let duration = parse(text).unwrap();
            assert_eq!(duration.as_millis(), ms, "{text}");
            assert_eq!(format(duration), written, "{text}");
        }
    }

    #[test]
    fn refuses() {
        let cases = [
            "",
            "1",
            "s",
            "-1h",
            "1h-5m",
            "5m1h",
            "1s1s",
            "1 s",
            "1.5h",
            "10x",
            "1sm",
            "300y",
            "1ſ",
            "99999999999999999999s",
            "1ms1s",
        ];
        for text in cases {
            assert!(parse(text).is_err(), "{text:?} was accepted");
        }
    }
}
