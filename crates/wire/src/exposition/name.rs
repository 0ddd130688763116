//! Names of metrics and labels: which fit the alphabet of before Prometheus 3, and how others are spelt
//! for a reader that knows only that alphabet.

/// Whether `name` is `[a-zA-Z_:][a-zA-Z0-9_:]*`, a metric's name that needs no quotes.
pub fn is_legacy_metric(name: &str) -> bool {
    is_legacy_label(name, b":")
}

/// Whether `name` is `[a-zA-Z_][a-zA-Z0-9_]*`, a label's name that needs no quotes.
pub fn is_legacy(name: &str) -> bool {
    is_legacy_label(name, b"")
}

fn is_legacy_label(name: &str, more: &[u8]) -> bool {
    !name.is_empty()
        && !name.as_bytes()[0].is_ascii_digit()
        && name.bytes().all(|b| IS_LEGACY[usize::from(b)] || more.contains(&b))
}

/// Letters, digits and `_`.
const IS_LEGACY: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        table[byte] = (byte as u8).is_ascii_alphanumeric() || byte as u8 == b'_';
        byte += 1;
    }
    table
};

/// How names outside the legacy alphabet are written, as `escaping=` in `Accept` and `Content-Type`
/// says. Names within it are always written as they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Escaping {
    /// As they are, in quotes.
    AllowUtf8,
    /// Every other character becomes `_`.
    #[default]
    Underscores,
    /// `.` becomes `_dot_`, `_` and every other character `__`.
    Dots,
    /// `U__`, then every other character as its code point in hexadecimal between underscores.
    Values,
}

impl Escaping {
    /// The word behind `escaping=`.
    pub const fn word(self) -> &'static str {
        match self {
            Escaping::AllowUtf8 => "allow-utf-8",
            Escaping::Underscores => "underscores",
            Escaping::Dots => "dots",
            Escaping::Values => "values",
        }
    }

    /// The scheme that `word` means.
    pub fn from_word(word: &str) -> Option<Escaping> {
        [Escaping::AllowUtf8, Escaping::Underscores, Escaping::Dots, Escaping::Values]
            .into_iter()
            .find(|scheme| scheme.word() == word)
    }

    /// Appends a metric's name. *Growth* of `out`.
    pub fn metric_into(self, name: &str, out: &mut String) {
        if self == Escaping::AllowUtf8 || is_legacy_metric(name) {
            out.push_str(name);
        } else {
            self.escape_into(name, true, out);
        }
    }

    /// Appends a label's name. *Growth* of `out`.
    pub fn label_into(self, name: &str, out: &mut String) {
        if self == Escaping::AllowUtf8 || is_legacy(name) {
            out.push_str(name);
        } else {
            self.escape_into(name, false, out);
        }
    }

    fn escape_into(self, name: &str, colon: bool, out: &mut String) {
        if self == Escaping::Values {
            out.push_str("U__");
        }
        for (index, character) in name.chars().enumerate() {
            let is_legal = character.is_ascii_alphabetic()
                || (character.is_ascii_digit() && index > 0)
                || (character == ':' && colon);
            match (self, character) {
                _ if is_legal => out.push(character),
                (Escaping::Dots, '.') => out.push_str("_dot_"),
                (Escaping::Dots, _) | (Escaping::Values, '_') => out.push_str("__"),
                (Escaping::Values, _) => {
                    out.push('_');
                    hexadecimal_into(character.into(), out);
                    out.push('_');
                }
                _ => out.push('_'),
            }
        }
    }

    /// The name that `escaped` was made of, as far as the scheme lets it be known; otherwise the same.
    pub fn unescape(self, escaped: &str) -> String {
        match self {
            Escaping::AllowUtf8 | Escaping::Underscores => escaped.to_owned(),
            Escaping::Dots => escaped.replace("_dot_", ".").replace("__", "_"),
            Escaping::Values => unescape_values(escaped).unwrap_or_else(|| escaped.to_owned()),
        }
    }
}

fn hexadecimal_into(code: u32, out: &mut String) {
    let digits = (32 - code.leading_zeros()).div_ceil(4).max(1);
    for digit in (0..digits).rev() {
        let nibble = (code >> (4 * digit)) & 0xf;
        out.push(char::from_digit(nibble, 16).expect("a nibble is a hexadecimal digit"));
    }
}

fn unescape_values(escaped: &str) -> Option<String> {
    let mut rest = escaped.strip_prefix("U__")?;
    let mut name = String::with_capacity(rest.len());
    while let Some(at) = rest.find('_') {
        name.push_str(&rest[..at]);
        let (code, after) = rest[at + 1..].split_once('_')?;
        match code {
            "" => name.push('_'),
            _ if code.len() <= 6 && code.bytes().all(|b| b.is_ascii_hexdigit()) => {
                name.push(char::from_u32(u32::from_str_radix(code, 16).ok()?)?);
            }
            _ => return None,
        }
        rest = after;
    }
    name.push_str(rest);
    Some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_as_prometheus_does() {
        // name, underscores, dots, values
        for (name, underscores, dots, values) in [
            ("up", "up", "up", "up"),
            ("a_b:c", "a_b:c", "a_b:c", "a_b:c"),
            ("http.status", "http_status", "http_dot_status", "U__http_2e_status"),
            ("a_b.c", "a_b_c", "a__b_dot_c", "U__a__b_2e_c"),
            ("größe", "gr__e", "gr____e", "U__gr_f6__df_e"),
            ("花火", "__", "____", "U___82b1__706b_"),
            ("0a", "_a", "__a", "U___30_a"),
        ] {
            for (scheme, expected) in [
                (Escaping::AllowUtf8, name),
                (Escaping::Underscores, underscores),
                (Escaping::Dots, dots),
                (Escaping::Values, values),
            ] {
                let mut out = String::new();
                scheme.metric_into(name, &mut out);
                assert_eq!(out, expected, "{name} in {}", scheme.word());
                if scheme == Escaping::Values {
                    assert_eq!(scheme.unescape(&out), name);
                }
            }
        }
        assert_eq!(Escaping::Dots.unescape("a__b_dot_c"), "a_b.c");
        for broken in ["U__a_", "U__a_zz_", "U__a_d800_", "U__a_1234567_", "plain_name"] {
            assert_eq!(Escaping::Values.unescape(broken), broken);
        }
        let mut label = String::new();
        Escaping::Underscores.label_into("a:b", &mut label);
        assert_eq!(label, "a_b", "a label's name has no colon");
    }
}
