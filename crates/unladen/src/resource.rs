//! Who measures: the resource, which is the process and where it runs, and the scope, which is the part
//! of the program that has the instrument. Both as OpenTelemetry defines them.

use std::fmt;

use wire::exposition::writer::StoredLabels;

/// Attributes of the process and of where it runs. In an exposition they are the labels of
/// `target_info`; OTLP has a place for them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resource {
    attributes: Vec<(String, String)>,
    schema_url: String,
}

impl Resource {
    /// One without attributes: no `target_info`.
    pub fn new() -> Self {
        Resource::default()
    }

    /// What OpenTelemetry's environment variables say, `OTEL_SERVICE_NAME` and
    /// `OTEL_RESOURCE_ATTRIBUTES` (`a=b,c=d`, percent-encoded), with the program's name where they name
    /// no service, and this library as `telemetry.sdk`. What can't be read is left out.
    pub fn from_environment() -> Self {
        let program = std::env::current_exe().ok();
        let program = program.as_deref().and_then(|path| path.file_name()?.to_str());
        let service = format!("unknown_service:{}", program.unwrap_or("unknown"));
        let mut resource = Resource::new()
            .with("service.name", &service)
            .with("telemetry.sdk.name", "unladen")
            .with("telemetry.sdk.language", "rust")
            .with("telemetry.sdk.version", env!("CARGO_PKG_VERSION"));
        let listed = std::env::var("OTEL_RESOURCE_ATTRIBUTES").unwrap_or_default();
        for (name, value) in listed.split(',').filter_map(|pair| pair.split_once('=')) {
            resource = resource.with(name.trim(), &percent_decoded(value.trim()));
        }
        match std::env::var("OTEL_SERVICE_NAME") {
            Ok(name) if !name.is_empty() => resource.with("service.name", &name),
            _ => resource,
        }
    }

    /// With this attribute, in place of one of the same name. An empty name is left out.
    #[must_use]
    pub fn with(mut self, name: &str, value: &str) -> Self {
        match self.attributes.binary_search_by(|(known, _)| known.as_str().cmp(name)) {
            _ if name.is_empty() => {}
            Ok(at) => self.attributes[at].1 = value.to_owned(),
            Err(at) => self.attributes.insert(at, (name.to_owned(), value.to_owned())),
        }
        self
    }

    /// With the address of the schema that the names follow.
    #[must_use]
    pub fn with_schema_url(self, schema_url: &str) -> Self {
        Resource { schema_url: schema_url.to_owned(), ..self }
    }

    /// Names and values, sorted by name.
    pub fn attributes(&self) -> impl ExactSizeIterator<Item = (&str, &str)> + Clone {
        self.attributes.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// The schema that the names follow; empty for none.
    pub fn schema_url(&self) -> &str {
        &self.schema_url
    }

    /// As the labels of `target_info`.
    pub(crate) fn labels(&self) -> StoredLabels {
        StoredLabels::new(self.attributes())
    }
}

pub(crate) fn percent_decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
        let hexadecimal = |digits: &[u8]| Some(digit(digits[0])? << 4 | digit(digits[1])?);
        match (first, after.get(..2).and_then(hexadecimal)) {
            (b'%', Some(byte)) => {
                bytes.push(byte);
                rest = &after[2..];
            }
            _ => {
                bytes.push(first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The part of a program that has an instrument: a library's name and version.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Scope {
    name: String,
    version: String,
    schema_url: String,
    attributes: Vec<(String, String)>,
    labels: StoredLabels,
}

impl Scope {
    /// The scope of this name. In an exposition, each of its series has the label `otel_scope_name`.
    pub fn new(name: &str) -> Self {
        Scope { name: name.to_owned(), ..Scope::default() }.stored()
    }

    /// With a version: the label `otel_scope_version`.
    #[must_use]
    pub fn with_version(self, version: &str) -> Self {
        Scope { version: version.to_owned(), ..self }.stored()
    }

    /// With the address of the schema that the names follow: the label `otel_scope_schema_url`.
    #[must_use]
    pub fn with_schema_url(self, schema_url: &str) -> Self {
        Scope { schema_url: schema_url.to_owned(), ..self }.stored()
    }

    /// With this attribute: the label `otel_scope_` and its name. One without a name, or with one that
    /// the scope has a label for already (`name`, `version`, `schema_url`), is left out.
    #[must_use]
    pub fn with(mut self, name: &str, value: &str) -> Self {
        if matches!(name, "" | "name" | "version" | "schema_url") {
            return self;
        }
        self.attributes.retain(|(known, _)| known != name);
        self.attributes.push((name.to_owned(), value.to_owned()));
        self.attributes.sort_unstable();
        self.stored()
    }

    /// Its name; empty for what belongs to no scope.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its version; empty for none.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// The schema that the names follow; empty for none.
    pub fn schema_url(&self) -> &str {
        &self.schema_url
    }

    /// Names and values, sorted by name.
    pub fn attributes(&self) -> impl ExactSizeIterator<Item = (&str, &str)> + Clone {
        self.attributes.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// The labels that each of its series has in an exposition.
    pub(crate) fn labels(&self) -> &StoredLabels {
        &self.labels
    }

    fn stored(self) -> Self {
        let own: Vec<(String, &str)> = [
            ("name", self.name.as_str()),
            ("version", &self.version),
            ("schema_url", &self.schema_url),
        ]
        .into_iter()
        .filter(|(_, value)| !value.is_empty())
        .chain(self.attributes())
        .map(|(name, value)| (format!("otel_scope_{name}"), value))
        .collect();
        let labels = StoredLabels::new(own.iter().map(|(name, value)| (name.as_str(), *value)));
        Scope { labels, ..self }
    }
}

impl fmt::Debug for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} {:?}", self.name, self.version)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scope_is_labels() {
        let scope = Scope::new("http \"server\"").with("b", "2").with("a", "1").with_version("3");
        let expected = "otel_scope_name=\"http \\\"server\\\"\",otel_scope_version=\"3\",\
            otel_scope_a=\"1\",otel_scope_b=\"2\"";
        assert_eq!(scope.labels().as_str(), expected);
        assert_eq!(Scope::default().labels().as_str(), "");
    }

    #[test]
    fn a_resource_has_each_name_once() {
        let resource = Resource::new().with("b", "1").with("a", "2").with("b", "3").with("", "4");
        assert!(resource.attributes().eq([("a", "2"), ("b", "3")]));
        assert_eq!(percent_decoded("a%20b%2"), "a b%2");
    }
}
