//! What the fleet says about itself.

use std::fmt::Write;

use wire::exposition::Kind;
use wire::exposition::negotiate::Negotiated;
use wire::exposition::writer::{Buffer, Extra, Family, LabelSet, Value, Writer, fold};

use super::options::MOST_SERIES;
use super::target;
use super::world::World;
use crate::duration;
use crate::time::rfc3339;

/// An answer that is put together as a whole.
pub(super) struct Page {
    status: &'static str,
    content_type: &'static str,
    body: Vec<u8>,
}

impl Page {
    pub(super) fn text(status: &'static str, text: impl Into<Vec<u8>>) -> Self {
        Page { status, content_type: "text/plain; charset=utf-8", body: text.into() }
    }

    /// The whole answer, head included.
    pub(super) fn answer(&self, keep_alive: bool) -> Vec<u8> {
        let Page { status, content_type, body } = self;
        let close = if keep_alive { "" } else { "Connection: close\r\n" };
        let mut answer = format!(
            "HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\n{close}Content-Length: {}\r\n\r\n",
            body.len()
        )
        .into_bytes();
        answer.extend_from_slice(body);
        answer
    }
}

/// The page at `path`, for a client that knows us as `host`.
pub(super) fn page(world: &World, path: &str, query: &str, host: &str) -> Page {
    let value = |name: &str| {
        let pairs = url::form_urlencoded::parse(query.as_bytes());
        pairs.into_iter().find(|(key, _)| key == name).map(|(_, value)| value.into_owned())
    };
    let json = |body: String| Page {
        status: "200 OK",
        content_type: "application/json; charset=utf-8",
        body: body.into_bytes(),
    };
    match path {
        "/" => Page::text("200 OK", index(world)),
        "/sd" => json(discovery(world, host)),
        "/prometheus.yml" => match configuration(world, host, value("interval"), value("job")) {
            Ok(text) => Page { content_type: "application/yaml", ..Page::text("200 OK", text) },
            Err(reason) => Page::text("400 Bad Request", reason),
        },
        "/status" => match value("last").map(|text| text.parse()) {
            Some(Err(_)) => Page::text("400 Bad Request", "last is a number of seconds\n"),
            last => json(status(world, last.and_then(Result::ok).unwrap_or(usize::MAX))),
        },
        "/metrics" => Page {
            status: "200 OK",
            content_type: "text/plain; version=0.0.4; charset=utf-8",
            body: metrics(world),
        },
        _ => Page::text(
            "404 Not Found",
            format!(
                "there is no {path}; see /, and /0/metrics to /{}/metrics\n",
                world.options.targets - 1
            ),
        ),
    }
}

fn index(world: &World) -> String {
    let options = &world.options;
    let here = world.address;
    format!(
        "A fleet of {} targets with {} series each, shape {}.\n\n\
         /0/metrics       the first target, at http://{}:{}/metrics too\n\
         /sd              all of them, for http_sd_configs\n\
         /prometheus.yml  a configuration that scrapes them\n\
         /status          what was served\n\
         /metrics         the same as metrics\n",
        options.targets,
        options.series,
        options.shape.as_str(),
        target::address(0),
        here.port(),
    )
}

/// Where the client finds us: what it called us by, if it is of the form `host:port`.
fn authority(world: &World, host: &str) -> String {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b".-_:[]".contains(&byte);
    if !host.is_empty() && host.bytes().all(fits) {
        let has_port = host.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
        return if has_port { host.to_owned() } else { format!("{host}:80") };
    }
    format!("127.0.0.1:{}", world.address.port())
}

fn discovery(world: &World, host: &str) -> String {
    let options = &world.options;
    let authority = authority(world, host);
    let kinds = options.shape.kinds();
    let port = world.address.port();
    let mut json = String::from("[");
    for number in 0..options.targets {
        let shape = kinds[number % kinds.len()].as_str();
        let behaviour = world.behaviour(number);
        let separator = if number > 0 { ",\n" } else { "" };
        let refuses = behaviour == Some(super::behaviour::Behaviour::Refuses);
        let port = if refuses { world.refusing_port } else { port };
        let (address, more) = if options.by_path {
            let address = if refuses {
                let host = authority.rsplit_once(':').map_or(authority.as_str(), |(host, _)| host);
                format!("{host}:{port}")
            } else {
                authority.clone()
            };
            let more = format!(
                ",\"__metrics_path__\":\"/{number}/metrics\",\"instance\":\"target-{number}\""
            );
            (address, more)
        } else {
            (format!("{}:{port}", target::address(number)), String::new())
        };
        // Writing to a String never fails.
        let _ = write!(
            json,
            "{separator}{{\"targets\":[\"{address}\"],\"labels\":{{\"__meta_fleet_number\":\"{number}\",\
             \"__meta_fleet_shape\":\"{shape}\"{more}"
        );
        if let Some(behaviour) = behaviour {
            let _ = write!(json, ",\"behaviour\":\"{}\"", behaviour.as_str());
        }
        json.push_str("}}");
    }
    json.push_str("]\n");
    json
}

fn configuration(
    world: &World,
    host: &str,
    interval: Option<String>,
    job: Option<String>,
) -> Result<String, String> {
    let interval = match interval {
        Some(text) => duration::parse(&text)
            .ok()
            .filter(|interval| !interval.is_zero())
            .ok_or_else(|| format!("interval is a duration such as 10s, not {text:?}\n"))?,
        None => world.options.interval,
    };
    let job = job.unwrap_or_else(|| "fleet".to_owned());
    if !job.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte)) {
        return Err(format!("job is a word of letters, digits, -, _ and ., not {job:?}\n"));
    }
    let timeout = interval.min(std::time::Duration::from_secs(10));
    let (interval, timeout) = (duration::format(interval), duration::format(timeout));
    let mut text = format!(
        "# A fleet of {} targets with {} series each.\n\
         global:\n  scrape_interval: {interval}\n  scrape_timeout: {timeout}\n\
         scrape_configs:\n  - job_name: '{job}'\n",
        world.options.targets, world.options.series
    );
    if world.misbehaving > 0 {
        let _ = write!(
            text,
            "    # Some targets misbehave: their bodies end here, far beyond those of the others.\n    \
             body_size_limit: {}B\n    sample_limit: {}\n",
            world.body_limit,
            (world.options.series * 2).min(MOST_SERIES * 2)
        );
    }
    let _ = write!(
        text,
        "    http_sd_configs:\n      - url: http://{}/sd\n        refresh_interval: 1m\n",
        authority(world, host)
    );
    Ok(text)
}

fn status(world: &World, last: usize) -> String {
    let options = &world.options;
    let now = world.since_start();
    let (totals, seen, open, (first, seconds)) = {
        let served = world.served.lock();
        (served.totals(now), served.seen(), served.open, served.seconds(last, now))
    };
    let cpu = cpu_seconds(world);
    let list = |value: &dyn Fn(&super::served::Second) -> u64| {
        let mut text = String::from("[");
        for (place, second) in seconds.iter().enumerate() {
            let _ = write!(text, "{}{}", if place > 0 { "," } else { "" }, value(second));
        }
        text.push(']');
        text
    };
    let (user, system) = cpu.map_or(("null".to_owned(), "null".to_owned()), |(user, system)| {
        (user.to_string(), system.to_string())
    });
    format!(
        "{{\"since\":\"{}\",\"uptime_seconds\":{:.3},\n\
         \"options\":{{\"targets\":{},\"series\":{},\"interval_seconds\":{},\"shape\":\"{}\",\"seed\":{},\
         \"gzip\":{},\"openmetrics\":{},\"misbehaving\":{}}},\n\
         \"targets\":{{\"all\":{},\"healthy\":{},\"misbehaving\":{},\"asked\":{seen}}},\n\
         \"connections\":{{\"open\":{open},\"taken\":{}}},\n\
         \"totals\":{{\"scrapes\":{},\"samples\":{},\"bytes\":{},\"missed\":{},\"broken_off\":{},\
         \"misbehaved\":{}}},\n\
         \"cpu\":{{\"user_seconds\":{user},\"system_seconds\":{system}}},\n\
         \"seconds\":{{\"first\":{first},\n\"scrapes\":{},\n\"samples\":{},\n\"bytes\":{}}}}}\n",
        rfc3339(Some(world.started_unix_ms)),
        now.as_secs_f64(),
        options.targets,
        options.series,
        options.interval.as_secs_f64(),
        options.shape.as_str(),
        options.seed,
        options.gzip,
        options.openmetrics,
        options.misbehaving,
        options.targets,
        options.targets - world.misbehaving,
        world.misbehaving,
        totals.connections,
        totals.scrapes,
        totals.samples,
        totals.bytes,
        totals.missed,
        totals.broken_off,
        totals.misbehaved,
        list(&|second| u64::from(second.scrapes)),
        list(&|second| second.samples),
        list(&|second| second.bytes),
    )
}

/// What the fleet's thread took, as a user and in the kernel.
fn cpu_seconds(world: &World) -> Option<(f64, f64)> {
    let thread = world.thread.lock();
    let path = std::path::Path::new("/proc").join(thread.as_ref()?).join("stat");
    let text = std::fs::read_to_string(path).ok()?;
    // The name before may hold anything but its own end.
    let mut fields = text.rsplit_once(')')?.1.split_ascii_whitespace().skip(11);
    let mut ticks = || fields.next()?.parse::<f64>().ok();
    let per_second = rustix::param::clock_ticks_per_second() as f64;
    Some((ticks()? / per_second, ticks()? / per_second))
}

fn metrics(world: &World) -> Vec<u8> {
    let now = world.since_start();
    let (totals, seen, open) = {
        let served = world.served.lock();
        (served.totals(now), served.seen(), served.open)
    };
    let cpu = cpu_seconds(world);
    let write = |out: &mut Writer<'_>| {
        let mut one = |name: &str, help: &str, kind: Kind, value: Value| {
            out.family(&Family::new(name, help, kind));
            out.number(LabelSet::Pairs(&[]), value, &Extra::NONE);
        };
        for (name, help, value) in [
            ("fleet_scrapes_total", "Answers of healthy targets, given in full.", totals.scrapes),
            ("fleet_samples_total", "Samples in them.", totals.samples),
            ("fleet_sent_bytes_total", "Bytes of all answers.", totals.bytes),
            (
                "fleet_missed_scrapes_total",
                "Scrapes of healthy targets that were due and didn't come.",
                totals.missed,
            ),
            (
                "fleet_broken_off_total",
                "Answers of healthy targets that were not taken to the end.",
                totals.broken_off,
            ),
            ("fleet_misbehaved_total", "Requests to misbehaving targets.", totals.misbehaved),
            ("fleet_connections_total", "Connections that were taken.", totals.connections),
        ] {
            one(name, help, Kind::Counter, Value::Count(value));
        }
        let count = |value: usize| Value::Count(value as u64);
        one("fleet_connections", "Connections that are open.", Kind::Gauge, count(open));
        one("fleet_targets_asked", "Healthy targets that were asked.", Kind::Gauge, count(seen));
        out.family(&Family::new("fleet_targets", "Targets.", Kind::Gauge));
        let healthy = world.options.targets - world.misbehaving;
        for (behaviour, value) in [("healthy", healthy), ("misbehaving", world.misbehaving)] {
            out.number(LabelSet::Pairs(&[("behaviour", behaviour)]), count(value), &Extra::NONE);
        }
        if let Some((user, system)) = cpu {
            let help = "What serving took, as a user and in the kernel.";
            out.family(&Family::new("fleet_cpu_seconds_total", help, Kind::Counter));
            for (mode, value) in [("user", user), ("system", system)] {
                let mode = [("mode", mode)];
                out.number(LabelSet::Pairs(&mode), Value::Float(value), &Extra::NONE);
            }
        }
    };
    let append = |mut body: Vec<u8>, chunk: &[u8]| {
        body.extend_from_slice(chunk);
        body
    };
    fold(&mut Buffer::new(), Negotiated::default(), Vec::new(), append, write)
}
