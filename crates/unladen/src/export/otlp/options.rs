//! Where to send, and how: from the program, or from OpenTelemetry's environment variables.

use std::fmt;
use std::time::Duration;

use crate::reader::Temporalities;
use crate::resource::percent_decoded;

/// Where to send, and how.
#[derive(Clone)]
pub struct Options {
    pub(super) endpoint: String,
    pub(super) headers: Vec<(String, String)>,
    pub(super) timeout: Duration,
    pub(super) is_compressed: bool,
    pub(super) temporalities: Temporalities,
    pub(super) waiting_bytes: usize,
    pub(super) points_per_request: usize,
}

/// Headers often hold secrets, so they are not shown.
impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("endpoint", &self.endpoint)
            .field("headers", &self.headers.len())
            .field("timeout", &self.timeout)
            .field("is_compressed", &self.is_compressed)
            .finish_non_exhaustive()
    }
}

/// A variable that can't be understood: which, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invalid {
    variable: String,
    reason: String,
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the environment variable {}: {}", self.variable, self.reason)
    }
}

impl std::error::Error for Invalid {}

impl Default for Options {
    /// To a collector on this machine, `http://localhost:4318/v1/metrics`.
    fn default() -> Self {
        Options {
            endpoint: "http://localhost:4318/v1/metrics".to_owned(),
            headers: Vec::new(),
            timeout: Duration::from_secs(10),
            is_compressed: false,
            temporalities: Temporalities::CUMULATIVE,
            waiting_bytes: 64 * 1024 * 1024,
            points_per_request: 20_000,
        }
    }
}

impl Options {
    /// To `endpoint`, the whole address: `http://collector:4318/v1/metrics`.
    pub fn to(endpoint: &str) -> Self {
        Options { endpoint: endpoint.to_owned(), ..Options::default() }
    }

    /// What these variables say, of which the one with `METRICS_` in it goes first:
    ///
    /// - `OTEL_EXPORTER_OTLP_METRICS_ENDPOINT`, the whole address, or `OTEL_EXPORTER_OTLP_ENDPOINT`, to
    ///   which `/v1/metrics` is added;
    /// - `OTEL_EXPORTER_OTLP_[METRICS_]HEADERS`: `name=value,name=value`, percent-encoded;
    /// - `OTEL_EXPORTER_OTLP_[METRICS_]TIMEOUT`, in milliseconds;
    /// - `OTEL_EXPORTER_OTLP_[METRICS_]COMPRESSION`: `gzip` or `none`;
    /// - `OTEL_EXPORTER_OTLP_[METRICS_]PROTOCOL`: nothing but `http/protobuf` can be had here;
    /// - `OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE`: `cumulative`, `delta` or `lowmemory`.
    ///
    /// # Errors
    /// A value that can't be understood.
    pub fn from_environment() -> Result<Self, Invalid> {
        Options::from_variables(|name| std::env::var(name).ok())
    }

    fn from_variables(get: impl Fn(&str) -> Option<String>) -> Result<Self, Invalid> {
        let get = |name: String| {
            let value = get(&name).filter(|value| !value.trim().is_empty())?;
            Some((name, value.trim().to_owned()))
        };
        let variable = |end: &str| {
            let specific = get(format!("OTEL_EXPORTER_OTLP_METRICS_{end}"));
            specific.or_else(|| get(format!("OTEL_EXPORTER_OTLP_{end}")))
        };
        let invalid =
            |variable: &str, reason: String| Err(Invalid { variable: variable.to_owned(), reason });
        let mut options = Options::default();
        if let Some((name, endpoint)) = variable("ENDPOINT") {
            if !endpoint.starts_with("http://") && !endpoint.starts_with("https://") {
                let reason = format!("{endpoint:?} has to begin with http:// or https://");
                return invalid(&name, reason);
            }
            options.endpoint = match name.contains("METRICS") {
                true => endpoint,
                false => format!("{}/v1/metrics", endpoint.trim_end_matches('/')),
            };
        }
        if let Some((name, headers)) = variable("HEADERS") {
            for pair in headers.split(',').filter(|pair| !pair.trim().is_empty()) {
                let Some((key, value)) = pair.split_once('=') else {
                    return invalid(&name, format!("{pair:?} is not of the form name=value"));
                };
                let value = percent_decoded(value.trim());
                options.headers.push((percent_decoded(key.trim()), value));
            }
        }
        if let Some((name, timeout)) = variable("TIMEOUT") {
            match timeout.parse() {
                Ok(milliseconds) if milliseconds > 0 => {
                    options.timeout = Duration::from_millis(milliseconds);
                }
                _ => return invalid(&name, format!("{timeout:?} is no number of milliseconds")),
            }
        }
        match variable("COMPRESSION") {
            Some((_, value)) if value == "gzip" => options.is_compressed = true,
            Some((name, value)) if value != "none" => {
                return invalid(&name, format!("{value:?} is neither gzip nor none"));
            }
            _ => {}
        }
        match variable("PROTOCOL") {
            Some((name, value)) if value != "http/protobuf" => {
                let reason = format!("{value:?} is not spoken here, but http/protobuf");
                return invalid(&name, reason);
            }
            _ => {}
        }
        let preference = "OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE".to_owned();
        if let Some((name, value)) = get(preference) {
            options.temporalities = match value.to_ascii_lowercase().as_str() {
                "cumulative" => Temporalities::CUMULATIVE,
                "delta" => Temporalities::DELTA,
                "lowmemory" => Temporalities::LOW_MEMORY,
                _ => {
                    let reason = format!("{value:?} is not cumulative, delta or lowmemory");
                    return invalid(&name, reason);
                }
            };
        }
        Ok(options)
    }

    /// With this header in every request, beside the others.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// An attempt may take so long, all in; 10 seconds without this.
    #[must_use]
    pub fn timeout(self, timeout: Duration) -> Self {
        Options { timeout, ..self }
    }

    /// Whether bodies are compressed by gzip: no without this.
    #[must_use]
    pub fn compressed(self, is_compressed: bool) -> Self {
        Options { is_compressed, ..self }
    }

    /// What values count from; everything cumulative without this.
    #[must_use]
    pub fn temporalities(self, temporalities: Temporalities) -> Self {
        Options { temporalities, ..self }
    }

    /// Requests of so many bytes together may wait for another attempt, and one however long it is;
    /// 64 MiB without this.
    #[must_use]
    pub fn waiting_bytes(self, waiting_bytes: usize) -> Self {
        Options { waiting_bytes, ..self }
    }

    /// At most so many points in a request; 20,000 without this, which is less than the 20 MiB that
    /// OpenTelemetry's collector takes.
    #[must_use]
    pub fn points_per_request(self, points: usize) -> Self {
        Options { points_per_request: points.max(1), ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Result<Options, Invalid> {
        Options::from_variables(|name| {
            let known = variables.iter().find(|(known, _)| *known == name);
            known.map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn the_environment_says_where_and_how() {
        let options = read(&[
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "https://a:1/b/"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20x=, k = v ,"),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "5"),
            ("OTEL_EXPORTER_OTLP_METRICS_TIMEOUT", "250"),
            ("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip"),
            ("OTEL_EXPORTER_OTLP_PROTOCOL", ""),
            ("OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE", "LowMemory"),
        ])
        .unwrap();
        assert_eq!(options.endpoint, "https://a:1/b/v1/metrics");
        let headers = [("authorization", "Bearer x="), ("k", "v")];
        assert_eq!(options.headers, headers.map(|(name, value)| (name.into(), value.into())));
        assert_eq!(options.timeout, Duration::from_millis(250));
        assert!(options.is_compressed);
        assert_eq!(options.temporalities, Temporalities::LOW_MEMORY);
        assert!(!format!("{options:?}").contains("Bearer"));
        let whole = [("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "http://a")];
        assert_eq!(read(&whole).unwrap().endpoint, "http://a");
        assert_eq!(read(&[]).unwrap().endpoint, "http://localhost:4318/v1/metrics");
    }

    #[test]
    fn what_cannot_be_understood_is_named() {
        for (end, value) in [
            ("ENDPOINT", "localhost:4318"),
            ("HEADERS", "abc"),
            ("TIMEOUT", "10s"),
            ("COMPRESSION", "zstd"),
            ("PROTOCOL", "grpc"),
            ("METRICS_TEMPORALITY_PREFERENCE", "both"),
        ] {
            let name = format!("OTEL_EXPORTER_OTLP_{end}");
            let error = read(&[(&name, value)]).unwrap_err().to_string();
            assert!(error.contains(&name) && error.contains(value), "{error}");
        }
    }
}
