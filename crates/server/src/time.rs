//! Dates as Go writes them.

/// `2006-01-02T15:04:05.123Z` of milliseconds since the epoch; the zero time where there is none.
pub(crate) fn rfc3339(milliseconds: Option<i64>) -> String {
    let Some(milliseconds) = milliseconds else { return "0001-01-01T00:00:00Z".to_owned() };
    let (seconds, rest) = (milliseconds.div_euclid(1000), milliseconds.rem_euclid(1000));
    let (days, of_day) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let (year, month, day) = civil(days);
    let mut text = format!(
        "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}",
        of_day / 3600,
        of_day / 60 % 60,
        of_day % 60
    );
    if rest != 0 {
        let fraction = format!(".{rest:03}");
        text.push_str(fraction.trim_end_matches('0'));
    }
    text.push('Z');
    text
}

/// Year, month and day of a day counted from 1970-01-01, in the Gregorian calendar. Years are counted
/// from March, so that the leap day is the last one.
fn civil(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let of_era = days.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    (era * 400 + year_of_era + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::rfc3339;

    #[test]
    fn dates() {
        for (milliseconds, expected) in [
            (None, "0001-01-01T00:00:00Z"),
            (Some(0), "1970-01-01T00:00:00Z"),
            (Some(-1), "1969-12-31T23:59:59.999Z"),
            (Some(1_709_209_815_980), "2024-02-29T12:30:15.98Z"),
            (Some(1_795_276_800_000), "2026-11-21T16:00:00Z"),
        ] {
            assert_eq!(rfc3339(milliseconds), expected);
        }
    }
}
