//! URLs as Go reads them: more is a URL there than elsewhere, a bare `host` included.

/// The parts that checks look at; either may be empty.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Address<'a> {
    pub(super) scheme: &'a str,
    pub(super) host: &'a str,
}

/// Splits a URL, absolute or relative.
///
/// # Errors
/// Says what makes it no URL: control characters, a missing scheme before `:`, white space in the
/// host, a port that is no number, a broken `%` escape.
pub(super) fn parse(text: &str) -> Result<Address<'_>, String> {
    if text.bytes().any(|b| b < b' ' || b == 0x7f) {
        return Err(format!("{text:?} is not a URL: it has control characters"));
    }
    let text = text.split_once('#').map_or(text, |(before, _)| before);
    let (scheme, rest) = split_scheme(text)?;
    let rest = rest.split_once('?').map_or(rest, |(before, _)| before);
    let Some(authority) = rest.strip_prefix("//") else {
        if scheme.is_empty() && rest.split('/').next().is_some_and(|first| first.contains(':')) {
            return Err(format!("{text:?} is not a URL: write the scheme, such as http://"));
        }
        check_escapes(text, rest)?;
        return Ok(Address { scheme, host: "" });
    };
    let (authority, path) = authority.split_once('/').map_or((authority, ""), |parts| parts);
    check_escapes(text, path)?;
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    check_host(text, host)?;
    Ok(Address { scheme, host })
}

/// A URL of `http` or `https` with a host.
pub(super) fn parse_http(text: &str) -> Result<(), String> {
    let address = parse(text)?;
    if !matches!(address.scheme, "http" | "https") {
        return Err(format!("{text:?} must be a URL that begins with http:// or https://"));
    }
    if address.host.is_empty() {
        return Err(format!("the host is missing in the URL {text:?}"));
    }
    Ok(())
}

/// A URL of any scheme with a host.
pub(super) fn parse_absolute(text: &str) -> Result<(), String> {
    let address = parse(text)?;
    if address.scheme.is_empty() || address.host.is_empty() {
        return Err(format!("{text:?} must be a URL with scheme and host, such as http://host:80"));
    }
    Ok(())
}

fn split_scheme(text: &str) -> Result<(&str, &str), String> {
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b':' if at == 0 => {
                return Err(format!(
                    "{text:?} is not a URL: the scheme before the colon is missing"
                ));
            }
            b':' => return Ok((&text[..at], &text[at + 1..])),
            b if b.is_ascii_alphabetic() => {}
            b if at > 0 && (b.is_ascii_digit() || matches!(b, b'+' | b'-' | b'.')) => {}
            _ => break,
        }
    }
    Ok(("", text))
}

fn check_host(text: &str, host: &str) -> Result<(), String> {
    if let Some(bad) = host
        .chars()
        .find(|c| matches!(c, ' ' | '"' | '<' | '>' | '\\' | '^' | '`' | '{' | '}' | '|'))
    {
        return Err(format!("{text:?} is not a URL: {bad:?} can't be in a host's name"));
    }
    let port = if let Some(rest) = host.strip_prefix('[') {
        let (_, after) = rest.split_once(']').ok_or_else(|| {
            format!("{text:?} is not a URL: the bracket of its host is not closed")
        })?;
        after
    } else {
        host.rfind(':').map_or("", |at| &host[at..])
    };
    let valid = port.is_empty()
        || port.strip_prefix(':').is_some_and(|digits| digits.bytes().all(|b| b.is_ascii_digit()));
    if !valid {
        return Err(format!("{text:?} is not a URL: its port is not a number"));
    }
    Ok(())
}

fn check_escapes(text: &str, path: &str) -> Result<(), String> {
    let mut rest = path.as_bytes();
    while let Some(at) = rest.iter().position(|b| *b == b'%') {
        let digits = rest.get(at + 1..at + 3);
        if !digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit)) {
            return Err(format!("{text:?} is not a URL: `%` must be followed by two hex digits"));
        }
        rest = &rest[at + 3..];
    }
    Ok(())
}

/// A URL as it may be shown: its password, if it has one, becomes `xxxxx`.
pub(super) fn redact(text: &str) -> String {
    let Some((before, rest)) = text.split_once("//") else { return text.to_owned() };
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, after) = rest.split_at(end);
    match authority.rsplit_once('@') {
        Some((user, host)) => match user.split_once(':') {
            Some((user, _)) => format!("{before}//{user}:xxxxx@{host}{after}"),
            None => text.to_owned(),
        },
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splits() {
        let cases = [
            ("http://host:80/a?b#c", "http", "host:80"),
            ("https://user:pass@host/", "https", "host"),
            ("unix:///var/run/docker.sock", "unix", ""),
            ("host", "", ""),
            ("/path/only", "", ""),
            ("http://[::1]:9090", "http", "[::1]:9090"),
            ("localhost:9090", "localhost", ""),
            ("//host/path", "", "host"),
        ];
        for (text, scheme, host) in cases {
            assert_eq!(parse(text), Ok(Address { scheme, host }), "{text}");
        }
    }

    #[test]
    fn refuses() {
        let cases = [
            ":80",
            "http://a b/",
            "http://host:port/",
            "http://[::1/",
            "http://h/%zz",
            "a\nb",
            "127.0.0.1:80",
        ];
        for text in cases {
            assert!(parse(text).is_err(), "{text:?} was accepted");
        }
        assert!(parse_http("ftp://host/").is_err());
        assert!(parse_http("http://").is_err());
        assert!(parse_absolute("host").is_err());
    }

    #[test]
    fn hides_passwords() {
        let cases = [
            ("http://user:pass@host/p@th", "http://user:xxxxx@host/p@th"),
            ("http://user@host/", "http://user@host/"),
            ("http://host/a:b@c", "http://host/a:b@c"),
            ("plain", "plain"),
        ];
        for (text, shown) in cases {
            assert_eq!(redact(text), shown);
        }
    }
}
