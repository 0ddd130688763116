//! The query string of a scrape: whatever it is, the answer is a part of the whole body in its order, or
//! a text that says what is wrong.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use unladen::endpoint::{Endpoint, Request};
use unladen::{Registry, Scope};

static ENDPOINT: LazyLock<(Endpoint, String)> = LazyLock::new(|| {
    let registry = Registry::new();
    let counter = registry.counter(("a_total", ""), ["b", "c.d"]).unwrap();
    for (b, c) in [("x", "y"), ("x", ""), ("\"\\\n", "花"), ("", "")] {
        counter.with([b, c]).increment();
    }
    let scope = registry.scope(Scope::new("s").with("e", "f"));
    let histogram = scope.histogram(("g.h", ""), ["b"], [0.5]).unwrap();
    histogram.with(["x"]).record(0.25);
    histogram.with(["z"]).record(0.75);
    let endpoint = Endpoint::new(registry);
    let whole = body(&endpoint, None).1;
    (endpoint, whole)
});

fn body(endpoint: &Endpoint, query: Option<&str>) -> (u16, String) {
    let answer = endpoint.answer(&Request { query, ..Request::default() });
    let status = answer.status();
    let mut body = Vec::new();
    answer.write_to(&mut body).unwrap();
    (status, String::from_utf8(body).unwrap())
}

fuzz_target!(|query: &str| {
    let (endpoint, whole) = &*ENDPOINT;
    let (status, first) = body(endpoint, Some(query));
    assert_eq!((status, &first), (body(endpoint, Some(query)).0, &body(endpoint, Some(query)).1));
    if status == 200 {
        let mut lines = whole.lines();
        assert!(first.lines().all(|line| lines.any(|known| known == line)), "{first}");
    } else {
        assert!(status == 400 && first.len() > 1 && first.ends_with('\n'), "{status} {first}");
    }
});
