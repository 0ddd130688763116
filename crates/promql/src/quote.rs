//! Quoting as Go's `strconv` does it, because messages and printed queries are compared with those
//! of Prometheus; and the way back.

use std::fmt::Write;

/// Appends `text` in double quotes with Go's escapes. Grows `out` only.
pub(crate) fn push_quoted(out: &mut String, text: &str) {
    out.push('"');
    for character in text.chars() {
        push_escaped(out, character, '"');
    }
    out.push('"');
}

/// `text` in double quotes with Go's escapes.
pub fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    push_quoted(&mut out, text);
    out
}

/// A character in single quotes; the end of the input shows as the replacement character.
pub(crate) fn quoted_char(character: Option<char>) -> String {
    let mut out = String::from("'");
    match character {
        None | Some(char::REPLACEMENT_CHARACTER) => out.push(char::REPLACEMENT_CHARACTER),
        Some(character) => push_escaped(&mut out, character, '\''),
    }
    out.push('\'');
    out
}

/// `U+0078 'x'`, or the number alone where nothing can be shown.
pub(crate) fn code_point(character: char) -> String {
    let mut out = format!("U+{:04X}", u32::from(character));
    if is_printable(character) {
        out.push_str(" '");
        out.push(character);
        out.push('\'');
    }
    out
}

fn push_escaped(out: &mut String, character: char, quote: char) {
    match character {
        '\\' => out.push_str("\\\\"),
        c if c == quote => {
            out.push('\\');
            out.push(c);
        }
        '\x07' => out.push_str("\\a"),
        '\x08' => out.push_str("\\b"),
        '\x0c' => out.push_str("\\f"),
        '\n' => out.push_str("\\n"),
        '\r' => out.push_str("\\r"),
        '\t' => out.push_str("\\t"),
        '\x0b' => out.push_str("\\v"),
        ' '..='~' => out.push(character),
        // Stands for bytes that are no text; a literal with it as it is could not be read again.
        char::REPLACEMENT_CHARACTER => out.push_str("\\ufffd"),
        c if is_printable(c) => out.push(c),
        c => {
            let code = u32::from(c);
            // Writing to a String never fails.
            let _ = match code {
                ..0x80 => write!(out, "\\x{code:02x}"),
                0x80..0x1_0000 => write!(out, "\\u{code:04x}"),
                _ => write!(out, "\\U{code:08x}"),
            };
        }
    }
}

/// Letters, marks, numbers, punctuation, symbols and the plain space.
fn is_printable(character: char) -> bool {
    // The standard library escapes what isn't printable, and in front of a text also marks that
    // combine with what stands before; a letter ahead turns the latter off.
    let mut buffer = [b'a', 0, 0, 0, 0];
    let end = 1 + character.encode_utf8(&mut buffer[1..]).len();
    let Ok(text) = std::str::from_utf8(&buffer[..end]) else { return false };
    matches!(character, '"' | '\'' | '\\') || text.escape_debug().nth(1) == Some(character)
}

/// The text of a string literal, quotes included, or `None` where its syntax is wrong. Bytes written
/// as `\xff` that make no UTF-8 become the replacement character.
pub(crate) fn unquote(literal: &str) -> Option<String> {
    let quote = *literal.as_bytes().first()?;
    let inner = literal.get(1..literal.len().checked_sub(1)?)?;
    if literal.as_bytes().last() != Some(&quote) || literal.len() < 2 {
        return None;
    }
    if quote == b'`' {
        return (!inner.contains('`')).then(|| inner.to_owned());
    }
    if !inner.contains('\\') {
        return Some(inner.to_owned());
    }
    let mut bytes = Vec::with_capacity(inner.len());
    let mut rest = inner.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        rest = if first == b'\\' {
            unescape(tail, quote, &mut bytes)?
        } else {
            bytes.push(first);
            tail
        };
    }
    Some(match String::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
    })
}

/// Takes what stands behind a backslash from `rest`.
fn unescape<'a>(rest: &'a [u8], quote: u8, out: &mut Vec<u8>) -> Option<&'a [u8]> {
    let (&kind, rest) = rest.split_first()?;
    let plain = match kind {
        b'a' => 0x07,
        b'b' => 0x08,
        b'f' => 0x0c,
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'v' => 0x0b,
        b'\\' => b'\\',
        b'\'' | b'"' if kind == quote => kind,
        b'x' => {
            out.push(u8::try_from(digits(rest.get(..2)?, 16)?).ok()?);
            return rest.get(2..);
        }
        b'0'..=b'7' => {
            let octal = digits(&[kind, *rest.first()?, *rest.get(1)?], 8)?;
            out.push(u8::try_from(octal).ok()?);
            return rest.get(2..);
        }
        b'u' | b'U' => {
            let length = if kind == b'u' { 4 } else { 8 };
            let character = char::from_u32(digits(rest.get(..length)?, 16)?)?;
            out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
            return rest.get(length..);
        }
        _ => return None,
    };
    out.push(plain);
    Some(rest)
}

fn digits(text: &[u8], radix: u32) -> Option<u32> {
    text.iter().try_fold(0u32, |value, &byte| {
        value.checked_mul(radix)?.checked_add(char::from(byte).to_digit(radix)?)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoting_is_go_s() {
        for (text, expected) in [
            ("plain", r#""plain""#),
            ("a\"b\\c'd", r#""a\"b\\c'd""#),
            ("\u{7}\u{8}\u{c}\n\r\t\u{b}\0\u{7f}", r#""\a\b\f\n\r\t\v\x00\x7f""#),
            ("ü 日 e\u{301}", "\"ü 日 e\u{301}\""),
            ("\u{a0}\u{200b}\u{10ffff}", r#""\u00a0\u200b\U0010ffff""#),
        ] {
            assert_eq!(quoted(text), expected);
            assert_eq!(unquote(expected).as_deref(), Some(text));
        }
        assert_eq!(quoted_char(Some('\'')), r"'\''");
        assert_eq!(quoted_char(None), "'\u{fffd}'");
        assert_eq!(code_point('x'), "U+0078 'x'");
    }

    #[test]
    fn unquoting_knows_three_quotes() {
        for (literal, expected) in [
            (r"'it\'s'", Some("it's")),
            (r#"'a"b'"#, Some("a\"b")),
            (r"`raw \n`", Some(r"raw \n")),
            (r#""\xe4\xbd\xa0\u597d\U0001f600\101""#, Some("你好😀A")),
            (r#""\xff""#, Some("\u{fffd}")),
            (r#""\'""#, None),
            (r#""\400""#, None),
            (r#""\ud800""#, None),
            (r#""\x4""#, None),
            (r#"""#, None),
            ("\"a'", None),
        ] {
            assert_eq!(unquote(literal).as_deref(), expected, "{literal}");
        }
    }
}
