//! The report as a page: one file, no scripts, nothing loaded from elsewhere, light and dark as the reader has
//! it. What others wrote (names, versions, flags) is escaped.

use std::fmt::Write as _;

use super::chart::{Line, lines};
use super::outcome::{Held, Moment, Outcome, Report};
use super::rows::{Form, ROWS, times, written};
use crate::profiles::text::xml;

const STYLE: &str = "
:root{color-scheme:light dark;--paper:#fff;--ink:#1c2430;--soft:#5b6675;--rule:#dfe4ea;--c0:#0a7d5a;--c1:#d1541c;\
--c2:#3c5fc4;--c3:#a03b9a;--c4:#a07b00;--c5:#5b6675}
@media(prefers-color-scheme:dark){:root{--paper:#14181d;--ink:#e4e8ee;--soft:#98a3b1;--rule:#2b323b;--c0:#3ecf9e;\
--c1:#ff9360;--c2:#86a4ff;--c3:#e38cdd;--c4:#e0bd4a;--c5:#98a3b1}}
*{box-sizing:border-box}
body{margin:0 auto;padding:2rem 1.5rem 4rem;max-width:76rem;background:var(--paper);color:var(--ink);\
font:15px/1.5 system-ui,sans-serif}
h1{font-size:1.6rem;margin:0}h2{font-size:1.15rem;margin:2.5rem 0 .5rem}p{margin:.3rem 0;color:var(--soft)}
.scroll{overflow-x:auto}table{border-collapse:collapse;margin:1rem 0;font-variant-numeric:tabular-nums}
th,td{padding:.3rem .9rem .3rem 0;border-bottom:1px solid var(--rule);text-align:right;white-space:nowrap}
th:first-child,td:first-child{text-align:left}thead th{border-bottom:2px solid var(--rule)}td small{color:var(--soft)}
.charts{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(30rem,100%),1fr));gap:1rem 2rem}
figure{margin:0}figcaption{font-weight:600;margin-bottom:.2rem}svg{width:100%;height:auto;display:block}
svg text{fill:var(--soft);font:11px system-ui,sans-serif}.y{text-anchor:end}.x{text-anchor:middle}.last{text-anchor:end}
.grid{stroke:var(--rule);fill:none}.line{fill:none;stroke-width:1.8;stroke-linejoin:round}
.c0{stroke:var(--c0)}.c1{stroke:var(--c1)}.c2{stroke:var(--c2)}.c3{stroke:var(--c3)}.c4{stroke:var(--c4)}\
.c5{stroke:var(--c5)}.dot{fill:var(--paper);stroke-width:1.8}
.key{display:inline-block;width:.8em;height:.8em;border-radius:2px;margin-right:.4em;vertical-align:-.05em}
.k0{background:var(--c0)}.k1{background:var(--c1)}.k2{background:var(--c2)}.k3{background:var(--c3)}\
.k4{background:var(--c4)}.k5{background:var(--c5)}
code{font:13px/1.4 ui-monospace,monospace;overflow-wrap:anywhere}";

/// The whole page.
pub(super) fn page(report: &Report) -> String {
    let mut html = String::from(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\
         <title>unladen loadtest</title><style>",
    );
    html.push_str(STYLE);
    // Writing to a String never fails.
    let _ = write!(
        html,
        "</style></head><body><h1>Load test</h1><p>{}, unladen {}, on {}</p>",
        xml(&report.date),
        xml(report.unladen),
        xml(&report.machine.line())
    );
    if !report.ramp.is_empty() {
        ramp(report, &mut html);
    }
    for held in &report.loads {
        load(held, report.side_by_side, &mut html);
    }
    commands(report, &mut html);
    html.push_str("</body></html>\n");
    html
}

fn load(held: &Held, side_by_side: bool, html: &mut String) {
    let _ = write!(
        html,
        "<h2>{} targets × {} series every {} s</h2><p>{} s measured after a warm-up of {} s{}{}</p>",
        held.targets,
        held.series_per_target,
        held.interval_seconds,
        held.seconds,
        held.warmup_seconds,
        if side_by_side { ", side by side" } else { "" },
        xml(&held.fleet_flags.iter().fold(String::new(), |all, flag| all + " " + flag))
    );
    html.push_str("<div class=\"scroll\"><table><thead><tr><th></th>");
    for (at, server) in held.servers.iter().enumerate() {
        let _ =
            write!(html, "<th><span class=\"key k{}\"></span>{}</th>", at % 6, xml(&server.server));
    }
    html.push_str("</tr></thead><tbody>");
    for row in ROWS {
        let values: Vec<Option<f64>> = held.servers.iter().map(row.value).collect();
        if values.iter().all(Option::is_none) {
            continue;
        }
        let _ = write!(html, "<tr><td>{}</td>", xml(row.name));
        for (at, value) in values.iter().enumerate() {
            let times = times(values[0], *value).filter(|_| at > 0 && row.compared);
            let times = times.map_or(String::new(), |times| format!(" <small>{times}</small>"));
            let _ = write!(html, "<td>{}{times}</td>", xml(&written(*value, row.form)));
        }
        html.push_str("</tr>");
    }
    html.push_str("</tbody></table></div><div class=\"charts\">");
    let mut chart = |title: &str, form: Form, value: fn(&Moment) -> f64| {
        let of = |server: &Outcome| -> Vec<(f64, f64)> {
            server.course.iter().map(|moment| (moment.seconds, value(moment))).collect()
        };
        let all: Vec<Line<'_>> = held
            .servers
            .iter()
            .map(|server| Line { name: &server.server, points: of(server) })
            .collect();
        html.push_str(&lines(title, "s", form, &all));
    };
    chart("Samples per second", Form::Count, |moment| moment.samples as f64);
    chart("Processors", Form::Digits(2), |moment| moment.cores);
    chart("Memory (RSS)", Form::Bytes, |moment| moment.rss_bytes as f64);
    if held.servers.iter().any(|server| server.disk.written_bytes.is_some()) {
        chart("Bytes written to disk", Form::Bytes, |moment| moment.written_bytes as f64);
    }
    html.push_str("</div>");
}

fn ramp(report: &Report, html: &mut String) {
    html.push_str("<h2>How far it went</h2><table><tbody>");
    for one in &report.ramp {
        let far = match (one.held, one.to_the_end) {
            (Some(held), true) => format!("{held} {}, the end of the ramp", one.unit),
            (Some(held), false) => format!("{held} {}", one.unit),
            (None, _) => "fell behind at the first step".to_owned(),
        };
        let _ = write!(html, "<tr><td>{}</td><td>{}</td></tr>", xml(&one.server), xml(&far));
    }
    html.push_str("</tbody></table><div class=\"charts\">");
    let by_series = report.ramp.iter().any(|one| one.unit != "targets");
    let unit = if by_series { "series" } else { "targets" };
    let mut chart = |title: &str, form: Form, value: fn(&Outcome) -> f64| {
        let of = |name: &str| {
            let mut points = Vec::new();
            for held in &report.loads {
                let step = if by_series { held.series_per_target } else { held.targets };
                let servers = held.servers.iter().filter(|server| server.server == name);
                points.extend(servers.map(|server| (step as f64, value(server))));
            }
            points
        };
        let all: Vec<Line<'_>> = report
            .ramp
            .iter()
            .map(|one| Line { name: &one.server, points: of(&one.server) })
            .collect();
        html.push_str(&lines(title, unit, form, &all));
    };
    chart("Processors", Form::Digits(2), |server| server.cpu.cores);
    chart("CPU-seconds per million samples", Form::Digits(3), |server| {
        server.cpu.seconds_per_million_samples
    });
    chart("Memory (RSS)", Form::Bytes, |server| server.memory.rss_mean_bytes);
    chart("Scrapes missed", Form::Count, |server| server.scrapes_missed as f64);
    html.push_str("</div>");
}

/// What ran, for whoever wants to run it again.
fn commands(report: &Report, html: &mut String) {
    html.push_str("<h2>Servers</h2>");
    let mut seen = Vec::new();
    for server in report.loads.iter().flat_map(|held| &held.servers) {
        if seen.contains(&&server.server) {
            continue;
        }
        seen.push(&server.server);
        let _ = write!(
            html,
            "<p>{}: {}<br><code>{}</code></p>",
            xml(&server.server),
            xml(&server.version),
            xml(&server.command)
        );
    }
}

#[cfg(test)]
mod tests {
    use super::super::terminal::example;
    use super::*;

    #[test]
    fn what_others_wrote_is_no_markup() {
        let mut report = example();
        let evil = "<script>alert('x')</script>&\"";
        report.loads[0].fleet_flags = vec![evil.to_owned()];
        for server in &mut report.loads[0].servers {
            server.server = evil.to_owned();
            server.version = evil.to_owned();
            server.command = evil.to_owned();
            server.course =
                vec![Moment::default(), Moment { seconds: 1.0, samples: 5, ..Moment::default() }];
        }
        report.machine.model = evil.to_owned();
        let html = page(&report);
        assert!(!html.contains("<script"), "{html}");
        assert!(!html.contains("alert('x')"), "{html}");
        assert!(
            html.contains("&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;&amp;&quot;"),
            "{html}"
        );
    }

    #[test]
    fn it_needs_nothing_from_elsewhere() {
        let html = page(&example());
        for outside in ["http://", "https://", "src=", "@import", "url(", "<script", "<link"] {
            assert!(!html.contains(outside), "{outside}");
        }
        for tag in ["svg", "figure", "table", "tbody", "div", "p", "h2", "body", "html"] {
            let count = |mark: &str| html.matches(mark).count();
            let opened = count(&format!("<{tag}>")) + count(&format!("<{tag} "));
            assert_eq!(opened, count(&format!("</{tag}>")), "{tag}");
        }
    }
}
