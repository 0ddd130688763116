//! Labels have a bound, and those beyond it cost next to nothing. In a process of its own, since what is there
//! stays there.

use std::time::{Duration, Instant};

use profiler::{MOST_SETS, MOST_TEXT, scope, scopes_refused};

/// How many of `count` scopes are refused, and how long each takes.
fn enter(count: usize, value: impl Fn(usize) -> String) -> (u64, Duration) {
    let values: Vec<String> = (0..count).map(value).collect();
    let before = scopes_refused();
    let begun = Instant::now();
    for value in &values {
        drop(scope("user", value));
    }
    let took = begun.elapsed() / count as u32;
    (scopes_refused() - before, took)
}

#[test]
fn what_there_is_no_room_for_is_refused_at_once() {
    let refused = |value: &str| enter(1, |_| value.to_owned()).0;
    assert_eq!(refused(&"x".repeat(MOST_TEXT)), 0);
    assert_eq!(refused(&"x".repeat(MOST_TEXT + 1)), 1);
    let before = scopes_refused();
    drop(scope(&"x".repeat(MOST_TEXT + 1), "value"));
    assert_eq!(scopes_refused(), before + 1);

    // The empty set is one, and the long text above.
    let room = MOST_SETS - 2;
    let name = |number: usize| format!("user {number}");
    assert_eq!(enter(room, name).0, 0);
    assert_eq!(enter(room, name).0, 0, "again");
    assert_eq!(enter(1, |_| "one more".to_owned()).0, 1);

    let (refused, of_new) = enter(100_000, |number| format!("new {number}"));
    assert_eq!(refused, 100_000);
    let (refused, of_old) = enter(100_000, |number| name(number % room));
    assert_eq!(refused, 0, "those that are there stay");
    // To look through 4,096 sets takes a hundred times as long.
    assert!(of_new < 10 * of_old + Duration::from_nanos(500), "{of_new:?}, known {of_old:?}");
}
