//! The query string of a scrape: which part of the registry it asks for.
//!
//! `name[]` and `match[]` are read, both as often as wanted; other parameters are ignored, as all of
//! Prometheus' clients do, because a scrape's configuration may carry some for something else.

use super::selector::Selector;

/// The longest query string, in bytes.
const LONGEST: usize = 16 << 10;

/// Conditions that all selectors may have together.
pub(super) const MOST_MATCHERS: usize = 64;

/// What a query string asks for.
#[derive(Debug, Default)]
pub(super) struct Query {
    /// Names of families or of their series, sorted; every family if there are none.
    pub(super) names: Option<Vec<String>>,
    /// One has to match; every series if there are none.
    pub(super) selectors: Vec<Selector>,
}

impl Query {
    /// Reads a query string; tells what is wrong with it, to whoever asked. *Setup.*
    pub(super) fn parse(text: &str) -> Result<Query, String> {
        if text.len() > LONGEST {
            return Err(format!("the query string is longer than {LONGEST} bytes"));
        }
        let mut query = Query::default();
        for part in text.split('&').filter(|part| !part.is_empty()) {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            let Some(name) = decode(name) else { continue };
            let value = || decode(value).ok_or_else(|| format!("{name} is not valid UTF-8"));
            match name.as_str() {
                "name[]" => query.names.get_or_insert_default().push(value()?),
                "match[]" => {
                    let text = value()?;
                    let selector = Selector::parse(&text)
                        .map_err(|error| format!("match[]={text}: {error}"))?;
                    query.selectors.push(selector);
                }
                _ => {}
            }
        }
        let matchers: usize = query.selectors.iter().map(|s| s.matchers.len()).sum();
        if matchers > MOST_MATCHERS || query.selectors.len() > MOST_MATCHERS {
            return Err(format!("match[] has more than {MOST_MATCHERS} conditions in all"));
        }
        if let Some(names) = &mut query.names {
            names.sort_unstable();
        }
        Ok(query)
    }

    /// Whether it asks for everything.
    pub(super) fn is_empty(&self) -> bool {
        self.names.is_none() && self.selectors.is_empty()
    }
}

/// `%41` is a byte, `+` a blank; a `%` that no two digits follow stands for itself. None if the bytes are
/// no UTF-8.
fn decode(text: &str) -> Option<String> {
    let digit = |byte: Option<&u8>| byte.and_then(|&b| char::from(b).to_digit(16));
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        let code = digit(after.first()).zip(digit(after.get(1)));
        (rest, _) = match (first, code) {
            (b'%', Some((high, low))) => (&after[2..], bytes.push((high << 4 | low) as u8)),
            (b'+', _) => (after, bytes.push(b' ')),
            _ => (after, bytes.push(*first)),
        };
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_what_it_knows() {
        // query string, names, number of selectors
        let none: Option<&[&str]> = None;
        for (text, names, selectors) in [
            ("", none, 0),
            ("&&", none, 0),
            ("debug=1&format=x&name=up", none, 0),
            ("name[]=b&name[]=a", Some(&["a", "b"][..]), 0),
            ("name%5B%5D=a+%25%e8%8a%b1%zz", Some(&["a %花%zz"]), 0),
            ("name[]", Some(&[""]), 0),
            ("match[]=%7Ba%3D%22b%22%7D&match%5b%5d=up", none, 2),
            ("name[]=a&match[]={b=\"c=d\"}", Some(&["a"]), 1),
            ("%ff=1", none, 0),
        ] {
            let query = Query::parse(text).unwrap();
            let expected = names.map(|names| names.iter().map(|n| (*n).to_owned()).collect());
            assert_eq!(query.names, expected, "{text}");
            assert_eq!(query.selectors.len(), selectors, "{text}");
            assert_eq!(query.is_empty(), names.is_none() && selectors == 0);
        }
    }

    #[test]
    fn says_what_is_wrong() {
        for (text, expected) in [
            ("name[]=%ff", "name[] is not valid UTF-8"),
            ("match[]={a", "match[]={a: expected '=', '!=', '=~' or '!~' at byte 2"),
            ("match[]=", "match[]=: expected a name or '{' at byte 0"),
            (&"match[]=a&".repeat(65), "match[] has more than 64 conditions in all"),
            (&"a".repeat(20_000), "the query string is longer than 16384 bytes"),
        ] {
            assert_eq!(Query::parse(text).unwrap_err(), expected);
        }
    }
}
