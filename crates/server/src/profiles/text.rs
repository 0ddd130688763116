//! Names of others, made harmless.
//!
//! A function's name is whatever a profile says: an escape sequence for the terminal, markup for the page
//! that shows the SVG. What is no visible character is written as its code point.

use std::fmt::Write;

/// Whether a terminal or a browser might do something else with it than show it: controls, and those that
/// change the direction of what follows.
fn is_harmful(character: char) -> bool {
    character.is_control()
        || matches!(
            character,
            '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}'
                | '\u{fffe}' | '\u{ffff}'
        )
}

/// The text on one line, with what is harmful as `\u{1b}`.
pub(super) fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            character if is_harmful(character) => {
                // Writing to a String never fails.
                let _ = write!(out, "\\u{{{:x}}}", u32::from(character));
            }
            character => out.push(character),
        }
    }
    out
}

/// The text as XML has it, in elements and in attributes.
pub(crate) fn xml(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in plain(text).chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            character => out.push(character),
        }
    }
    out
}

/// At most `most` characters of it: what is cut out of the middle shows as `…`. The end of a function's name
/// tells more than its middle.
pub(super) fn cut(text: &str, most: usize) -> String {
    let count = text.chars().count();
    if count <= most || most == 0 {
        return text.to_owned();
    }
    let (head, tail) = ((most - 1) / 2, most / 2);
    let begin: String = text.chars().take(head).collect();
    let end: String = text.chars().skip(count - tail).collect();
    format!("{begin}…{end}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_do_harm_is_shown_instead() {
        for (text, shown, in_xml) in [
            ("core::fmt::write", "core::fmt::write", "core::fmt::write"),
            ("Vec<&'a T>", "Vec<&'a T>", "Vec&lt;&amp;&#39;a T&gt;"),
            ("\u{1b}]0;x\u{7}", "\\u{1b}]0;x\\u{7}", "\\u{1b}]0;x\\u{7}"),
            ("a\nb\tc\r", "a\\nb\\tc\\u{d}", "a\\nb\\tc\\u{d}"),
            ("\u{202e}txt", "\\u{202e}txt", "\\u{202e}txt"),
            ("\u{61c}a\u{180e}", "\\u{61c}a\\u{180e}", "\\u{61c}a\\u{180e}"),
            ("]]><script>", "]]><script>", "]]&gt;&lt;script&gt;"),
            ("é\"\u{0}", "é\"\\u{0}", "é&quot;\\u{0}"),
        ] {
            assert_eq!((plain(text).as_str(), xml(text).as_str()), (shown, in_xml));
        }
    }

    #[test]
    fn long_names_lose_their_middle() {
        for (text, most, shown) in [
            ("abcdefgh", 8, "abcdefgh"),
            ("abcdefgh", 5, "ab…gh"),
            ("abcdefgh", 4, "a…gh"),
            ("ééééé", 3, "é…é"),
            ("abc", 1, "…"),
            ("abc", 0, "abc"),
        ] {
            assert_eq!(cut(text, most), shown);
        }
    }
}
