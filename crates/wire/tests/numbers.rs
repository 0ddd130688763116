//! Numbers against what Go's `expfmt` and `strconv` write and read.

use proptest::prelude::*;
use wire::number::{Buffer, NORMAL_NAN_BITS, ParseError, STALE_NAN, parse, parse_literal};

/// Exposition, OpenMetrics, API JSON, with exponent, plain.
type Written = [&'static str; 5];

const WRITTEN: &[(f64, Written)] = &[
    (0.0, ["0", "0.0", "0", "0e+00", "0"]),
    (-0.0, ["0", "0.0", "-0", "-0e+00", "-0"]),
    (1.0, ["1", "1.0", "1", "1e+00", "1"]),
    (-1.0, ["-1", "-1.0", "-1", "-1e+00", "-1"]),
    (0.5, ["0.5", "0.5", "0.5", "5e-01", "0.5"]),
    (17.0, ["17", "17.0", "17", "1.7e+01", "17"]),
    (123_456.0, ["123456", "123456.0", "123456", "1.23456e+05", "123456"]),
    (100_000.0, ["100000", "100000.0", "100000", "1e+05", "100000"]),
    (999_999.5, ["999999.5", "999999.5", "999999.5", "9.999995e+05", "999999.5"]),
    (1e6, ["1e+06", "1e+06", "1000000", "1e+06", "1000000"]),
    (1_234_567.0, ["1.234567e+06", "1.234567e+06", "1234567", "1.234567e+06", "1234567"]),
    (
        1_234_567.25,
        ["1.23456725e+06", "1.23456725e+06", "1234567.25", "1.23456725e+06", "1234567.25"],
    ),
    (0.0001, ["0.0001", "0.0001", "0.0001", "1e-04", "0.0001"]),
    (0.000_01, ["1e-05", "1e-05", "0.00001", "1e-05", "0.00001"]),
    (1.5e-7, ["1.5e-07", "1.5e-07", "1.5e-07", "1.5e-07", "0.00000015"]),
    (1e-6, ["1e-06", "1e-06", "0.000001", "1e-06", "0.000001"]),
    (1e20, ["1e+20", "1e+20", "100000000000000000000", "1e+20", "100000000000000000000"]),
    (1e21, ["1e+21", "1e+21", "1e+21", "1e+21", "1000000000000000000000"]),
    (
        1e100,
        [
            "1e+100",
            "1e+100",
            "1e+100",
            "1e+100",
            concat!(
                "10000000000000000000000000",
                "000000000000000000000000000000000000000000000000000000000000000000000000000"
            ),
        ],
    ),
    (
        9_007_199_254_740_993.0,
        [
            "9.007199254740992e+15",
            "9.007199254740992e+15",
            "9007199254740992",
            "9.007199254740992e+15",
            "9007199254740992",
        ],
    ),
    (
        0.1 + 0.2,
        [
            "0.30000000000000004",
            "0.30000000000000004",
            "0.30000000000000004",
            "3.0000000000000004e-01",
            "0.30000000000000004",
        ],
    ),
    (f64::NAN, ["NaN"; 5]),
    (STALE_NAN, ["NaN"; 5]),
    (f64::INFINITY, ["+Inf"; 5]),
    (f64::NEG_INFINITY, ["-Inf"; 5]),
];

fn write(value: f64) -> [String; 5] {
    let mut buffer = Buffer::new();
    [
        buffer.exposition(value).to_owned(),
        buffer.openmetrics(value).to_owned(),
        buffer.json(value).to_owned(),
        buffer.exponent(value).to_owned(),
        buffer.plain(value).to_owned(),
    ]
}

#[test]
fn writes_as_go() {
    for (value, expected) in WRITTEN {
        assert_eq!(write(*value), *expected, "{value:e}");
    }
    for (value, length) in [(f64::MIN, 310), (-f64::MIN_POSITIVE, 327), (5e-324, 326)] {
        assert_eq!(write(value)[4].len(), length, "{value:e} fits the buffer");
    }
}

const SYNTAX: Result<f64, ParseError> = Err(ParseError::Syntax);
const RANGE: Result<f64, ParseError> = Err(ParseError::Range);

/// In an exposition, as a literal.
type Parsed = (Result<f64, ParseError>, Result<f64, ParseError>);

fn both(value: f64) -> Parsed {
    (Ok(value), Ok(value))
}

#[test]
fn parses_as_go() {
    let table: &[(&str, Parsed)] = &[
        ("0", both(0.0)),
        ("-0", both(-0.0)),
        ("+5", both(5.0)),
        ("007", both(7.0)),
        ("5.", both(5.0)),
        (".5", both(0.5)),
        ("-.5e1", both(-5.0)),
        ("1e-400", both(0.0)),
        ("4.9406564584124654e-324", both(5e-324)),
        ("9007199254740993", both(9_007_199_254_740_992.0)),
        ("123456789012345", both(123_456_789_012_345.0)),
        ("0.123456789012345", both(0.123_456_789_012_345)),
        ("1.7976931348623157e308", both(f64::MAX)),
        ("1.7976931348623159e308", (RANGE, RANGE)),
        ("1e400", (RANGE, RANGE)),
        ("-1e400", (RANGE, RANGE)),
        ("inf", both(f64::INFINITY)),
        ("+Inf", both(f64::INFINITY)),
        ("-INFINITY", both(f64::NEG_INFINITY)),
        ("+nan", (SYNTAX, SYNTAX)),
        ("-NaN", (SYNTAX, SYNTAX)),
        ("infi", (SYNTAX, SYNTAX)),
        ("", (SYNTAX, SYNTAX)),
        (".", (SYNTAX, SYNTAX)),
        ("-", (SYNTAX, SYNTAX)),
        ("1e", (SYNTAX, SYNTAX)),
        ("1e+", (SYNTAX, SYNTAX)),
        ("1..2", (SYNTAX, SYNTAX)),
        ("1.2.3", (SYNTAX, SYNTAX)),
        ("--1", (SYNTAX, SYNTAX)),
        (" 1", (SYNTAX, SYNTAX)),
        ("1 ", (SYNTAX, SYNTAX)),
        ("0x10", (SYNTAX, SYNTAX)),
        ("0x1p4", (SYNTAX, Ok(16.0))),
        ("-0x1.8P-1", (SYNTAX, Ok(-0.75))),
        ("0x1p-1074", (SYNTAX, Ok(5e-324))),
        ("0x1p-1075", (SYNTAX, Ok(0.0))),
        ("0x1.8p-1075", (SYNTAX, Ok(5e-324))),
        ("0x1.fffffffffffff8p1023", (SYNTAX, RANGE)),
        ("0x1p99999", (SYNTAX, RANGE)),
        ("0x0p99999", (SYNTAX, Ok(0.0))),
        ("0xp1", (SYNTAX, SYNTAX)),
        ("1_000", (SYNTAX, Ok(1000.0))),
        ("0x_1p1", (SYNTAX, Ok(2.0))),
        ("1__0", (SYNTAX, SYNTAX)),
        ("_1", (SYNTAX, SYNTAX)),
        ("1_", (SYNTAX, SYNTAX)),
        ("1_.5", (SYNTAX, SYNTAX)),
    ];
    let bits = |result: Result<f64, ParseError>| result.map(f64::to_bits);
    for (text, (exposition, literal)) in table {
        assert_eq!(bits(parse(text.as_bytes())), bits(*exposition), "{text:?}");
        assert_eq!(bits(parse_literal(text.as_bytes())), bits(*literal), "literal {text:?}");
    }
    for text in ["NaN", "nan", "nAn"] {
        assert_eq!(bits(parse(text.as_bytes())), Ok(NORMAL_NAN_BITS), "{text}");
    }
}

proptest! {
    #[test]
    fn what_is_written_reads_back_as_the_same_bits(bits: u64) {
        let value = f64::from_bits(bits);
        prop_assume!(!value.is_nan());
        for text in write(value) {
            prop_assert_eq!(parse(text.as_bytes()).map(f64::to_bits), Ok(bits), "{}", text);
        }
    }

    #[test]
    fn integers_and_short_decimals_read_back_too(mantissa in -(1i64 << 53)..1 << 53, places in 0i32..20) {
        let value = mantissa as f64 / 10f64.powi(places);
        for text in write(value) {
            let parsed = parse(text.as_bytes());
            prop_assert_eq!(parsed, Ok(value), "{}", text);
        }
    }

    #[test]
    fn parses_as_the_standard_library_where_both_accept(text in "[-+]?[0-9]{0,20}(\\.[0-9]{0,20})?([eE][-+]?[0-9]{1,3})?") {
        let expected = text.parse::<f64>().ok().filter(|value| value.is_finite());
        prop_assert_eq!(parse(text.as_bytes()).ok().map(f64::to_bits), expected.map(f64::to_bits));
    }
}
