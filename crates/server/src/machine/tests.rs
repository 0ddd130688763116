//! The collector as a whole, on the machine that runs the test.

use unladen::{Format, Negotiated, Registry};

use super::{SOURCES, collector};

#[test]
fn this_machine_is_there() {
    let registry = Registry::new();
    registry.collect(collector());
    assert_eq!(registry.check(), Vec::<String>::new());
    let body = registry.write(Negotiated::default(), String::new(), |mut body, chunk| {
        body.push_str(std::str::from_utf8(chunk).unwrap());
        body
    });
    for (name, _) in SOURCES {
        let told = format!("node_scrape_collector_success{{collector=\"{name}\"}} ");
        assert!(body.contains(&told), "{name} is told of");
    }
    // Any Linux has these.
    for series in [
        "node_cpu_seconds_total{cpu=\"0\",mode=\"idle\"} ",
        "node_memory_MemTotal_bytes ",
        "node_load1 ",
        "node_boot_time_seconds ",
        "node_time_seconds ",
        "node_uname_info{",
        "node_filefd_maximum ",
        "node_vmstat_pgfault ",
    ] {
        assert!(body.lines().any(|line| line.starts_with(series)), "{series} in {body}");
    }
}

#[test]
fn two_at_once_agree() {
    let registry = Registry::new();
    registry.collect(collector());
    let openmetrics = Negotiated { format: Format::OpenMetrics, ..Negotiated::default() };
    let series = || {
        let body = registry.write(openmetrics, String::new(), |mut body, chunk| {
            body.push_str(std::str::from_utf8(chunk).unwrap());
            body
        });
        body.lines().map(|line| line.rsplit_once(' ').unwrap().0.to_owned()).collect::<Vec<_>>()
    };
    let expected = series();
    std::thread::scope(|scope| {
        let scrapes: Vec<_> = (0..4).map(|_| scope.spawn(series)).collect();
        for scrape in scrapes {
            assert_eq!(scrape.join().unwrap(), expected);
        }
    });
}
