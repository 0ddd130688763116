//! Sets of many long labels have a bound, too. In a process of its own, since what is there stays there.

use profiler::{MOST_SETS, scope, scopes_refused};

#[test]
fn sets_have_a_bound_in_bytes() {
    let long = "x".repeat(200);
    // Each within the one before, so that the last sets have all that there are.
    let mut held = Vec::new();
    while scopes_refused() == 0 {
        assert!(held.len() < MOST_SETS / 4, "as many as there may be of short ones");
        held.push(scope(&format!("{} {long}", held.len()), &long));
    }
    // Their sizes are 1, 2, 3 and so on times half a kilobyte: 8 MiB are 180 sets.
    assert!(held.len() > 100, "{}", held.len());
    while held.pop().is_some() {}
    let refused = scopes_refused();
    drop(scope(&format!("0 {long}"), &long));
    assert_eq!(scopes_refused(), refused, "what is there stays");
    drop(scope("another", "label"));
    assert_eq!(scopes_refused(), refused + 1);
}
