//! Numbers and times as Go writes them, for texts that PromQL makes: labels and annotations.

use wire::number::Buffer;

/// `%g`: the shortest digits; with an exponent below 1e-4 and from 1e6.
pub(crate) fn general(value: f64) -> String {
    Buffer::new().exposition(value).to_owned()
}

/// `%.Ng`
pub(crate) fn general_rounded(value: f64, precision: usize) -> String {
    if let Some(text) = special(value) {
        return text.to_owned();
    }
    let written = format!("{:.*e}", precision.max(1) - 1, value.abs());
    let (mantissa, exponent) = written.split_once('e').expect("`e` form has an exponent");
    let digits: String = mantissa.chars().filter(char::is_ascii_digit).collect();
    let exponent: i32 = exponent.parse().expect("`e` form has a whole exponent");
    let trimmed = digits.trim_end_matches('0');
    let digits = if trimmed.is_empty() { "0" } else { trimmed };
    layout(value, digits, exponent, precision as i32)
}

/// `strconv.FormatFloat(value, 'f', -1, 64)`: the shortest digits, never an exponent.
pub(crate) fn fixed(value: f64) -> String {
    Buffer::new().plain(value).to_owned()
}

fn special(value: f64) -> Option<&'static str> {
    if value.is_nan() {
        Some("NaN")
    } else if value == f64::INFINITY {
        Some("+Inf")
    } else if value == f64::NEG_INFINITY {
        Some("-Inf")
    } else {
        None
    }
}

fn layout(value: f64, digits: &str, exponent: i32, limit: i32) -> String {
    let sign = if value.is_sign_negative() { "-" } else { "" };
    if exponent < -4 || exponent >= limit {
        let (first, rest) = digits.split_at(1);
        let point = if rest.is_empty() { "" } else { "." };
        let exponent_sign = if exponent < 0 { '-' } else { '+' };
        return format!("{sign}{first}{point}{rest}e{exponent_sign}{:02}", exponent.abs());
    }
    if exponent < 0 {
        let zeros = "0".repeat((-exponent - 1) as usize);
        return format!("{sign}0.{zeros}{digits}");
    }
    let whole = exponent as usize + 1;
    if digits.len() <= whole {
        let zeros = "0".repeat(whole - digits.len());
        return format!("{sign}{digits}{zeros}");
    }
    let (before, after) = digits.split_at(whole);
    format!("{sign}{before}.{after}")
}

/// `2006-01-02T15:04:05Z` of milliseconds since the epoch.
pub(crate) fn rfc3339(milliseconds: i64) -> String {
    let seconds = milliseconds / 1000;
    let (year, month, day) = civil(seconds.div_euclid(86_400));
    let rest = seconds.rem_euclid(86_400);
    format!(
        "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z",
        rest / 3600,
        rest / 60 % 60,
        rest % 60
    )
}

/// Year, month (from 1) and day (from 1) of a number of days since the epoch.
///
/// Counts in eras of 400 years that begin on 1 March, so that the leap day is the last of its year.
pub(crate) fn civil(days: i64) -> (i64, u32, u32) {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = (day_of_year - (153 * month_from_march + 2) / 5 + 1) as u32;
    let month =
        if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 } as u32;
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_go_writes_them() {
        let cases = [
            (0.0, "0", "0"),
            (1.5, "1.5", "1.5"),
            (-2.0, "-2", "-2"),
            (1e6, "1e+06", "1000000"),
            (123_456.0, "123456", "123456"),
            (1.5e-7, "1.5e-07", "0.00000015"),
            (0.0001, "0.0001", "0.0001"),
            (f64::INFINITY, "+Inf", "+Inf"),
            (f64::NAN, "NaN", "NaN"),
        ];
        for (value, as_general, as_fixed) in cases {
            assert_eq!(general(value), as_general);
            assert_eq!(fixed(value), as_fixed);
        }
        assert_eq!(general_rounded(0.000_123_45, 2), "0.00012");
        assert_eq!(general_rounded(1234.0, 2), "1.2e+03");
    }

    #[test]
    fn days_become_dates() {
        assert_eq!(civil(0), (1970, 1, 1));
        assert_eq!(civil(19_782), (2024, 2, 29));
        assert_eq!(civil(-1), (1969, 12, 31));
        assert_eq!(rfc3339(1_136_214_245_000), "2006-01-02T15:04:05Z");
    }
}
