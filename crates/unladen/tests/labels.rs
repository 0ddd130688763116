//! Families whose labels are a type.

use std::borrow::Cow;
use std::sync::Arc;

use testkit::allocations::{Count, count};
use unladen::{Buckets, Negotiated, Registry, Scope, labels};

#[global_allocator]
static ALLOCATOR: testkit::allocations::Counting = testkit::allocations::Counting::new();

labels! {
    #[derive(Clone, Copy, Debug)]
    enum Method {
        Get => "GET",
        /// Named as it is.
        Other,
    }
}

labels! {
    struct Request<'r> {
        method: Method,
        status as "http.status": u16,
        route: &'r str,
        owner: Option<String>,
    }
}

labels! {
    struct All {
        a: String, b: Box<str>, c: Arc<str>, d: Cow<'static, str>, e: i128, f: u8, g: bool,
    }
}

labels! {
    #[derive(Default)]
    struct Nothing {}
}

fn series(registry: &Registry) -> Vec<String> {
    let body = registry.write(Negotiated::default(), String::new(), |body, chunk| {
        body + std::str::from_utf8(chunk).unwrap()
    });
    body.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect()
}

#[test]
fn every_instrument() {
    let registry = Registry::new();
    let scoped = registry.scope(Scope::new("s"));
    let get = Request { method: Method::Get, status: 200, route: "/", owner: None };
    let route = String::from("/x\"");
    let other =
        Request { method: Method::Other, status: 404, route: &route, owner: Some("me".into()) };

    let counter = registry.counter_of::<Request>(("a_total", "")).unwrap();
    counter.with(&get).increment();
    counter.add(&other, 2);
    counter.clone().add(&get, 1);
    assert_eq!(counter.len(), 2);
    assert!(counter.remove(&get) && !counter.remove(&get));
    scoped.float_counter_of::<Request>(("b_total", "")).unwrap().add(&get, 0.5);
    registry.up_down_counter_of::<Nothing>(("c", "")).unwrap().add(&Nothing::default(), -3);
    registry.float_up_down_counter_of::<Nothing>(("d", "")).unwrap().add(&Nothing {}, -0.5);
    registry.gauge_of::<Request>(("e", "")).unwrap().set(&get, 1.5);
    let all = All {
        a: "1".into(),
        b: "2".into(),
        c: "3".into(),
        d: "4".into(),
        e: i128::MIN,
        f: 6,
        g: true,
    };
    registry.integer_gauge_of::<All>(("f", "")).unwrap().set(&all, -1);
    let histogram = registry.histogram_of::<Nothing>(("g", ""), Buckets::explicit([1.0])).unwrap();
    histogram.record(&Nothing {}, 0.5);
    histogram.with(&Nothing {}).record(2.0);
    let expected = [
        "a_total{http_status=\"404\",method=\"Other\",owner=\"me\",route=\"/x\\\"\"} 2",
        "b_total{http_status=\"200\",method=\"GET\",otel_scope_name=\"s\",owner=\"\",route=\"/\"} 0.5",
        "c -3",
        "d -0.5",
        "e{http_status=\"200\",method=\"GET\",owner=\"\",route=\"/\"} 1.5",
        "f{a=\"1\",b=\"2\",c=\"3\",d=\"4\",e=\"-170141183460469231731687303715884105728\",f=\"6\",\
         g=\"true\"} -1",
        "g_bucket{le=\"1\"} 1",
        "g_bucket{le=\"+Inf\"} 2",
        "g_sum 2.5",
        "g_count 2",
    ];
    assert_eq!(series(&registry), expected);
}

#[test]
fn the_labels_names_are_checked() {
    labels! { struct Twice { a: u8, b as "a": u8 } }
    labels! { struct Own { le: u8 } }
    let registry = Registry::new();
    assert!(registry.counter_of::<Twice>(("a_total", "")).is_err());
    assert!(registry.histogram_of::<Own>(("a", ""), [1.0]).is_err());
    let _ = (Twice { a: 1, b: 2 }, Own { le: 3 });
}

#[test]
fn a_known_set_allocates_nothing() {
    let registry = Registry::new();
    let counter = registry.counter_of::<Request>(("a_total", "")).unwrap();
    let route = String::from("/");
    let measure = || {
        let request = Request { method: Method::Get, status: 200, route: &route, owner: None };
        counter.add(&request, 1);
        drop(counter.with(&request));
    };
    measure();
    assert_eq!(count(measure), Count::default());
}
