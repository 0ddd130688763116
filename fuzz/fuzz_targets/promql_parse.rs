//! A query that is accepted is printed, and what was printed is accepted and prints the same, on one line
//! and on several; one that is refused says where.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let query = match promql::parse(text) {
        Ok(query) => query,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    let printed = query.to_string();
    let again = promql::parse(&printed)
        .unwrap_or_else(|error| panic!("{text:?} prints as {printed:?}: {error}"));
    assert_eq!(again.to_string(), printed, "{text:?}");
    let pretty = promql::prettify(&query);
    let again = promql::parse(&pretty)
        .unwrap_or_else(|error| panic!("{text:?} is formatted as {pretty:?}: {error}"));
    assert_eq!(again.to_string(), printed, "{text:?}");
});
