//! Numbers of bytes as Prometheus writes them: `10MB`, `512KiB`, `1GB512MB`; always powers of 1024.

/// The units, smallest first; each is 1024 of the one before.
const PREFIXES: [&str; 7] = ["", "K", "M", "G", "T", "P", "E"];

/// Reads a number of bytes. `KB` and `KiB` are the same 1024 bytes; a unit is required except for `0`.
///
/// # Errors
/// Says what is wrong with the text and what a size looks like.
pub fn parse(text: &str) -> Result<i64, String> {
    if text == "0" {
        return Ok(0);
    }
    let refuse = || format!("{text:?} is not a size, write one with its unit such as 10MB");
    let (negative, mut rest) = match text.as_bytes().first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    };
    if rest.is_empty() {
        return Err(refuse());
    }
    let mut total = 0f64;
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(|b| b.is_ascii_digit() || *b == b'.').count();
        let (number, after) = rest.split_at(digits);
        let letters = after.bytes().take_while(u8::is_ascii_alphabetic).count();
        let (unit, after) = after.split_at(letters);
        let number: f64 = number.parse().map_err(|_| refuse())?;
        let power = unit
            .strip_suffix("iB")
            .filter(|prefix| !prefix.is_empty())
            .or_else(|| unit.strip_suffix('B'))
            .and_then(|prefix| PREFIXES.iter().position(|candidate| *candidate == prefix))
            .ok_or_else(|| {
                format!("{text:?} has no unit of bytes, write one of B, KB, MB, GB, TB, PB, EB")
            })?;
        total += number * 1024f64.powi(power as i32);
        rest = after;
    }
    if total >= i64::MAX as f64 {
        return Err(format!("the size {text:?} is larger than 8EB"));
    }
    Ok(if negative { -(total as i64) } else { total as i64 })
}

/// Writes a number of bytes as Prometheus does: `15MiB`, `1KiB476B`.
pub fn format(bytes: i64) -> String {
    if bytes == 0 {
        return "0B".to_owned();
    }
    let mut rest = bytes;
    let mut parts = Vec::new();
    for (power, prefix) in PREFIXES.iter().enumerate() {
        if rest % 1024 != 0 {
            let infix = if power == 0 { "" } else { "i" };
            parts.push(format!("{}{prefix}{infix}B", rest % 1024));
        }
        rest /= 1024;
    }
    parts.reverse();
    parts.concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_and_writes() {
        let cases = [
            ("0", 0, "0B"),
            ("15MB", 15 << 20, "15MiB"),
            ("15MiB", 15 << 20, "15MiB"),
            ("100B", 100, "100B"),
            ("1KB476B", 1500, "1KiB476B"),
            ("1.5KB", 1536, "1KiB512B"),
            ("1GB512MB", (1 << 30) + (512 << 20), "1GiB512MiB"),
            ("-1KB", -1024, "-1KiB"),
            ("7EB", 7 << 60, "7EiB"),
        ];
        for (text, bytes, written) in cases {
            assert_eq!(parse(text), Ok(bytes), "{text}");
            assert_eq!(format(bytes), written, "{text}");
        }
    }

    #[test]
    fn refuses() {
        for text in ["", "100", "MB", "1.2.3MB", "1mb", "10 MB", "-", "8EB", "1iB", "1KBx"] {
            assert!(parse(text).is_err(), "{text:?} was accepted");
        }
    }
}
