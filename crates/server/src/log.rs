//! What the server says while it runs: one line for each event, on standard error.

use std::fmt;

use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

use crate::app::now_ms;
use crate::cli::LogFormat;
use crate::time;

/// Starts logging. Setup; the first call counts.
pub(crate) fn start(level: Level, format: LogFormat) {
    let builder = tracing_subscriber::fmt().with_max_level(level).with_writer(std::io::stderr);
    // A second start is a test's; its lines go where the first ones go.
    let _ = match format {
        LogFormat::Logfmt => builder.event_format(Logfmt).try_init(),
        LogFormat::Json => builder.json().flatten_event(true).try_init(),
    };
}

/// `time=… level=INFO source=scrape msg="…" key=value`
struct Logfmt;

impl<S, N> FormatEvent<S, N> for Logfmt
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        _context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let metadata = event.metadata();
        let source = metadata.target().trim_start_matches("server::").replace("::", ".");
        write!(
            writer,
            "time={} level={} source={source}",
            time::rfc3339(Some(now_ms())),
            metadata.level()
        )?;
        let mut fields = Fields { message: String::new(), rest: String::new() };
        event.record(&mut fields);
        writeln!(writer, " msg={}{}", quoted(&fields.message), fields.rest)
    }
}

struct Fields {
    message: String,
    rest: String,
}

impl tracing::field::Visit for Fields {
    fn record_debug(&mut self, field: &tracing::field::Field, value: &dyn fmt::Debug) {
        self.record_str(field, &format!("{value:?}"));
    }

    fn record_error(
        &mut self,
        field: &tracing::field::Field,
        value: &(dyn std::error::Error + 'static),
    ) {
        self.record_str(field, &value.to_string());
    }

    fn record_str(&mut self, field: &tracing::field::Field, value: &str) {
        if field.name() == "message" {
            self.message.push_str(value);
        } else {
            self.rest.push(' ');
            self.rest.push_str(field.name());
            self.rest.push('=');
            self.rest.push_str(&quoted(value));
        }
    }
}

/// In quotes where the value could be taken apart otherwise.
fn quoted(text: &str) -> String {
    let plain = |c: char| !c.is_whitespace() && !c.is_control() && !matches!(c, '"' | '=' | '\\');
    if !text.is_empty() && text.chars().all(plain) {
        return text.to_owned();
    }
    promql::quote::quoted(text)
}

#[cfg(test)]
mod tests {
    use super::quoted;

    #[test]
    fn values_are_quoted_where_they_must_be() {
        for (text, expected) in [
            ("plain/path:1", "plain/path:1"),
            ("two words", "\"two words\""),
            ("a=b", "\"a=b\""),
            ("line\nbreak", "\"line\\nbreak\""),
            ("", "\"\""),
        ] {
            assert_eq!(quoted(text), expected);
        }
    }
}
