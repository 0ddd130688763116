//! `kubernetes_sd_configs`.

use crate::config::address;
use crate::config::error::Report;
use crate::config::http_options;
use crate::config::schema::{
    Schema, boolean, choice, path, section, sections, text, texts, unchecked, url,
};
use crate::config::section::{Section, enumerate};

const ROLES: &[&str] = &["pod", "service", "endpoints", "endpointslice", "node", "ingress"];

pub(super) static KUBERNETES: Schema = Schema {
    groups: &[
        &[url("api_server"), choice("role", ROLES).always(), path("kubeconfig_file").always()],
        http_options::FIELDS,
        &[
            section("namespaces", &NAMESPACES),
            sections("selectors", &SELECTOR),
            section("attach_metadata", &ATTACH_METADATA),
        ],
    ],
    check,
};

static NAMESPACES: Schema = Schema {
    groups: &[&[boolean("own_namespace").always(), texts("names").always()]],
    check: unchecked,
};

static SELECTOR: Schema = Schema {
    groups: &[&[choice("role", ROLES), text("label"), text("field")]],
    check: |section, report| {
        if let Err(reason) = check_field_selector(section.text("field")) {
            section.error(report, "field", reason);
        }
        if let Err(reason) = check_label_selector(section.text("label")) {
            section.error(report, "label", reason);
        }
    },
};

static ATTACH_METADATA: Schema = Schema {
    groups: &[&[
        boolean("node").always(),
        boolean("namespace").always(),
        boolean("deployment").always(),
        boolean("job").always(),
        boolean("cronjob").always(),
    ]],
    check: unchecked,
};

fn check(section: &mut Section, report: &mut Report) {
    section.require(report, "role");
    let before = report.error_count();
    http_options::check(section, report);
    let (server, kubeconfig) = (section.has("api_server"), section.has("kubeconfig_file"));
    if server && let Err(reason) = address::parse(section.text("api_server")) {
        section.error(report, "api_server", reason);
    }
    if server && kubeconfig {
        section.error(
            report,
            "kubeconfig_file",
            "at most one of api_server and kubeconfig_file may be set",
        );
    }
    let own = section.section("namespaces").is_some_and(|names| names.bool("own_namespace"));
    if own && (server || kubeconfig) {
        let other = if server { "api_server" } else { "kubeconfig_file" };
        section.error(
            report,
            "namespaces",
            format!("at most one of {other} and namespaces.own_namespace may be set"),
        );
    }
    if report.error_count() == before
        && !server
        && let Some(name) = custom_client_option(section)
    {
        let message = if kubeconfig {
            "options of the HTTP client have no effect with kubeconfig_file: remove them"
        } else {
            "options of the HTTP client need the api_server: set its URL as well"
        };
        section.error(report, name, message);
    }
    check_selectors(section, report);
}

/// A client option that differs from its default.
fn custom_client_option(section: &Section) -> Option<&'static str> {
    http_options::FIELDS.iter().map(|field| field.name).find(|name| match *name {
        "follow_redirects" | "enable_http2" => !section.bool(name),
        _ => section.has(name) || section.has_section(name),
    })
}

fn check_selectors(section: &Section, report: &mut Report) {
    let role = section.text("role");
    let allowed: &[&str] = match role {
        "pod" => &["pod", "node"],
        "service" => &["service"],
        "endpointslice" => &["pod", "service", "endpointslice"],
        "endpoints" => &["pod", "service", "endpoints"],
        "node" => &["node"],
        "ingress" => &["ingress"],
        _ => return,
    };
    let selectors = section.sections("selectors");
    for (index, selector) in selectors.iter().enumerate() {
        let of = selector.text("role");
        if selectors[..index].iter().any(|other| other.text("role") == of) {
            selector.error(report, "role", format!("there are two selectors of the role {of}"));
        } else if !allowed.contains(&of) {
            selector.error(
                report,
                "role",
                format!("the role {role} takes selectors of the role {}", enumerate(allowed, "or")),
            );
        }
    }
}

/// `field=value`, `field==value` and `field!=value`, separated by commas; `\` escapes.
fn check_field_selector(text: &str) -> Result<(), String> {
    for term in split_unescaped(text) {
        if !term.is_empty() && !term.contains('=') {
            return Err(format!(
                "invalid selector {text:?}: {term:?} is none of field=value, field==value and \
                 field!=value"
            ));
        }
    }
    Ok(())
}

fn split_unescaped(text: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let (mut start, mut escaped) = (0, false);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b',' => {
                parts.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts
}

/// `key`, `!key`, `key=value`, `key!=value`, `key in (a, b)`, `key notin (a, b)`, `key > 1`,
/// separated by commas.
fn check_label_selector(text: &str) -> Result<(), String> {
    let refuse = |term: &str| format!("invalid selector {text:?}: can't understand {term:?}");
    if text.trim().is_empty() {
        return Ok(());
    }
    let mut rest = text.trim();
    loop {
        // A comma within parentheses separates values.
        let open = rest.find('(').unwrap_or(rest.len());
        let end = match rest.find(',') {
            Some(comma) if comma < open => comma,
            Some(_) | None if open < rest.len() => {
                rest.find(')').map(|close| close + 1).ok_or_else(|| refuse(rest))?
            }
            _ => rest.len(),
        };
        let (term, after) = rest.split_at(end);
        if !is_label_requirement(term.trim()) {
            return Err(refuse(term.trim()));
        }
        match after.trim_start().strip_prefix(',') {
            Some(next) => rest = next,
            None if after.trim().is_empty() => return Ok(()),
            None => return Err(refuse(after.trim())),
        }
    }
}

fn is_label_requirement(term: &str) -> bool {
    if let Some(key) = term.strip_prefix('!') {
        return is_qualified_name(key.trim());
    }
    let key_end = term
        .find(|c: char| c.is_whitespace() || matches!(c, '=' | '!' | '<' | '>' | '('))
        .unwrap_or(term.len());
    let (key, rest) = term.split_at(key_end);
    let rest = rest.trim_start();
    if !is_qualified_name(key) {
        return false;
    }
    if rest.is_empty() {
        return true;
    }
    for word in ["notin", "in"] {
        if let Some(set) = rest.strip_prefix(word) {
            return set
                .trim_start()
                .strip_prefix('(')
                .and_then(|set| set.strip_suffix(')'))
                .is_some_and(|set| set.split(',').all(|value| is_label_value(value.trim())));
        }
    }
    for operator in ["==", "!=", "="] {
        if let Some(value) = rest.strip_prefix(operator) {
            return is_label_value(value.trim());
        }
    }
    rest.strip_prefix(['<', '>']).is_some_and(|number| number.trim().parse::<i64>().is_ok())
}

/// `name` or `prefix/name`.
fn is_qualified_name(text: &str) -> bool {
    let (prefix, name) = text.rsplit_once('/').map_or((None, text), |(p, n)| (Some(p), n));
    let prefix_fits = prefix.is_none_or(|prefix| {
        !prefix.is_empty()
            && prefix
                .bytes()
                .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || b == b'.')
    });
    !name.is_empty() && is_label_value(name) && prefix_fits
}

fn is_label_value(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.len() <= 63
        && bytes.first().is_none_or(u8::is_ascii_alphanumeric)
        && bytes.last().is_none_or(u8::is_ascii_alphanumeric)
        && bytes.iter().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selectors() {
        for text in ["", "a=b", "a==b,c!=d", r"a=b\,c", "a.b=c,"] {
            assert_eq!(check_field_selector(text), Ok(()), "{text}");
        }
        assert!(check_field_selector("a-b").is_err());
        for text in [
            "",
            "a",
            "!a",
            "a=b",
            "a = b",
            "a!=b",
            "a in (b, c)",
            "a notin (b),c=d",
            "app.kubernetes.io/name=x",
            "a=",
            "n>1",
            "a,b,!c",
        ] {
            assert_eq!(check_label_selector(text), Ok(()), "{text}");
        }
        for text in ["=a", "a in b", "a in (b", "a~b", "a=b c", "a (b)", "n>x", "a=b,,c", "-a=b"] {
            assert!(check_label_selector(text).is_err(), "{text} was accepted");
        }
    }
}
