//! Reads RE2's syntax and writes the same pattern in the syntax of `regex-syntax`.
//!
//! Accepted and refused is what Go's `regexp/syntax` accepts and refuses with its `Perl` flags, and the
//! errors are worded as there. Where both agree on the spelling but not on the meaning (`\w` is ASCII,
//! `\s` has no vertical tab, `&&` is no operator) the output spells the meaning out. The translation is
//! one loop over the pattern; groups are counted, not recursed into.

use super::PatternError;

/// The largest count in `x{n,m}`, also of nested ones multiplied.
const MOST_REPEATS: u32 = 1000;
/// The deepest nesting of groups; beyond that compiling would recurse too deep.
const DEEPEST: usize = 200;

/// A pattern in the syntax of `regex-syntax`.
pub(super) struct Translated {
    pub(super) expression: String,
    /// The names of the capture groups; the first is that of the whole match and has none.
    pub(super) group_names: Vec<Option<Box<str>>>,
}

/// Translates `source`.
pub(super) fn translate(source: &str) -> Result<Translated, PatternError> {
    let mut translator = Translator {
        source,
        rest: source,
        out: String::with_capacity(source.len() + 16),
        groups: Vec::new(),
        group_names: vec![None],
        last: Last::Nothing,
        heaviest: 1,
        duplicate: None,
    };
    translator.run()?;
    Ok(Translated { expression: translator.out, group_names: translator.group_names })
}

/// What a repetition operator would refer to.
#[derive(Clone, Copy)]
enum Last<'a> {
    /// The beginning of a pattern, a group or a branch.
    Nothing,
    /// Something that can be repeated.
    Atom(Atom),
    /// A repetition, which RE2 doesn't let repeat at once; the text from its operator on.
    Repetition(Atom, &'a str),
}

/// Something that can be repeated.
#[derive(Clone, Copy)]
struct Atom {
    /// Where it begins in the output.
    start: usize,
    /// Where it ends there; flags may follow, which RE2 looks through.
    end: usize,
    /// How often its inside is repeated already.
    weight: u32,
    /// Whether it is a repetition itself, and needs a group around it to be repeated again.
    repeated: bool,
}

/// A group that has not been closed yet.
struct Open {
    /// Where it begins in the output.
    start: usize,
    /// The heaviest repetition outside of it so far.
    heaviest: u32,
}

struct Translator<'a> {
    source: &'a str,
    rest: &'a str,
    out: String,
    groups: Vec<Open>,
    group_names: Vec<Option<Box<str>>>,
    last: Last<'a>,
    /// The largest product of nested counts in the group that is open.
    heaviest: u32,
    /// A name given twice, which RE2 reports only if there is nothing else to report.
    duplicate: Option<&'a str>,
}

impl<'a> Translator<'a> {
    fn run(&mut self) -> Result<(), PatternError> {
        while let Some(first) = self.rest.chars().next() {
            match first {
                '(' => self.open()?,
                ')' => self.close()?,
                '|' => {
                    self.advance(1);
                    self.out.push('|');
                    self.last = Last::Nothing;
                }
                '*' | '+' | '?' => {
                    let operator = self.advance(1);
                    self.repeat(operator, 1)?;
                }
                '{' => match self.counts()? {
                    Some((operator, most)) => self.repeat(operator, most)?,
                    None => self.literal(first),
                },
                '[' => self.class()?,
                '\\' => self.escape()?,
                '.' | '^' | '$' => {
                    let text = self.advance(1);
                    self.atom(text);
                }
                _ => self.literal(first),
            }
        }
        if !self.groups.is_empty() {
            return Err(PatternError::new("missing closing )", self.source));
        }
        match self.duplicate {
            Some(name) => Err(PatternError::new("duplicate capture group name", name)),
            None => Ok(()),
        }
    }

    /// Writes something that can be repeated.
    fn atom(&mut self, text: &str) {
        let start = self.out.len();
        self.out.push_str(text);
        let end = self.out.len();
        self.last = Last::Atom(Atom { start, end, weight: 1, repeated: false });
    }

    /// Takes `bytes` bytes of the pattern.
    fn advance(&mut self, bytes: usize) -> &'a str {
        let (taken, rest) = self.rest.split_at(bytes);
        self.rest = rest;
        taken
    }

    /// What has been taken since `before` was the rest.
    fn since(&self, before: &'a str) -> &'a str {
        &before[..before.len() - self.rest.len()]
    }

    fn literal(&mut self, character: char) {
        self.advance(character.len_utf8());
        self.literal_atom(character);
    }

    fn literal_atom(&mut self, character: char) {
        let mut text = String::new();
        push_literal(&mut text, character);
        self.atom(&text);
    }

    fn open(&mut self) -> Result<(), PatternError> {
        if self.groups.len() == DEEPEST {
            return Err(PatternError::new("expression nests too deeply", self.source));
        }
        let before = self.rest;
        self.advance(1);
        if self.rest.starts_with('?') {
            self.advance(1);
            let named = ["P<", "<"].into_iter().find(|start| self.rest.starts_with(start));
            match named {
                Some(start) => self.named_group(before, start.len())?,
                None => return self.flags(before),
            }
        } else {
            self.group_names.push(None);
            self.begin_group("(");
        }
        Ok(())
    }

    fn begin_group(&mut self, text: &str) {
        self.groups.push(Open { start: self.out.len(), heaviest: self.heaviest });
        self.out.push_str(text);
        self.heaviest = 1;
        self.last = Last::Nothing;
    }

    fn named_group(&mut self, before: &'a str, start: usize) -> Result<(), PatternError> {
        self.advance(start);
        let Some(end) = self.rest.find('>') else {
            return Err(PatternError::new("invalid named capture", before));
        };
        let name = self.advance(end);
        self.advance(1);
        if name.is_empty() || !name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') {
            return Err(PatternError::new("invalid named capture", self.since(before)));
        }
        if self.group_names.iter().any(|known| known.as_deref() == Some(name)) {
            self.duplicate = self.duplicate.or(Some(name));
        }
        self.group_names.push(Some(Box::from(name)));
        self.begin_group("(");
        Ok(())
    }

    /// `(?flags)` and `(?flags:`
    fn flags(&mut self, before: &'a str) -> Result<(), PatternError> {
        let mut negated = false;
        let mut any = false;
        loop {
            let next = self.rest.chars().next();
            self.advance(next.map_or(0, char::len_utf8));
            match next {
                Some('i' | 'm' | 's' | 'U') => any = true,
                Some('-') if !negated => {
                    negated = true;
                    any = false;
                }
                Some(end @ (':' | ')')) if any || !negated => {
                    let text = self.since(before);
                    if end == ':' {
                        self.begin_group(text);
                    } else {
                        // Without any flag the group says nothing, and Rust would refuse it.
                        self.out.push_str(if any { text } else { "" });
                        if let Last::Repetition(atom, _) = self.last {
                            self.last = Last::Atom(atom);
                        }
                    }
                    return Ok(());
                }
                _ => {
                    let at = self.since(before);
                    return Err(PatternError::new("invalid or unsupported Perl syntax", at));
                }
            }
        }
    }

    fn close(&mut self) -> Result<(), PatternError> {
        let Some(open) = self.groups.pop() else {
            return Err(PatternError::new("unexpected )", self.source));
        };
        self.advance(1);
        self.out.push(')');
        let (start, end) = (open.start, self.out.len());
        self.last = Last::Atom(Atom { start, end, weight: self.heaviest, repeated: false });
        self.heaviest = self.heaviest.max(open.heaviest);
        Ok(())
    }

    /// `{n}`, `{n,}` or `{n,m}`, or nothing where a lone `{` stands for itself.
    fn counts(&mut self) -> Result<Option<(&'a str, u32)>, PatternError> {
        let Some(end) = self.rest.find('}') else { return Ok(None) };
        let body = &self.rest[1..end];
        let (least, most) = body.split_once(',').unwrap_or((body, body));
        let (Some(least), Some(most)) =
            (count(least), if most.is_empty() { Some(0) } else { count(most) })
        else {
            return Ok(None);
        };
        let unbounded = body.ends_with(',');
        let operator = self.advance(end + 1);
        if least > MOST_REPEATS || most > MOST_REPEATS || (!unbounded && least > most) {
            return Err(PatternError::new("invalid repeat count", operator));
        }
        Ok(Some((operator, if unbounded { least } else { most })))
    }

    fn repeat(&mut self, operator: &'a str, most: u32) -> Result<(), PatternError> {
        let lazy = self.rest.starts_with('?');
        self.advance(usize::from(lazy));
        let from = operator.as_ptr() as usize - self.source.as_ptr() as usize;
        let tail = &self.source[from..];
        let written = &tail[..operator.len() + usize::from(lazy)];
        let atom = match self.last {
            Last::Atom(atom) => atom,
            Last::Nothing => {
                let reason = "missing argument to repetition operator";
                return Err(PatternError::new(reason, written));
            }
            Last::Repetition(_, before) => {
                let both = &before[..before.len() - self.rest.len()];
                return Err(PatternError::new("invalid nested repetition operator", both));
            }
        };
        let weight = atom.weight.saturating_mul(most.max(1));
        if weight > MOST_REPEATS {
            return Err(PatternError::new("invalid repeat count", operator));
        }
        self.heaviest = self.heaviest.max(weight);
        self.out.insert_str(atom.end, written);
        let mut end = atom.end + written.len();
        if atom.repeated {
            self.out.insert(atom.end, ')');
            self.out.insert_str(atom.start, "(?:");
            end += 4;
        }
        self.last = Last::Repetition(Atom { start: atom.start, end, weight, repeated: true }, tail);
        Ok(())
    }

    /// A backslash outside of a class.
    fn escape(&mut self) -> Result<(), PatternError> {
        let before = self.rest;
        let Some(next) = self.rest[1..].chars().next() else {
            return Err(PatternError::new("trailing backslash at end of expression", ""));
        };
        match next {
            'A' | 'z' => {
                let text = self.advance(2);
                self.atom(text);
            }
            'b' | 'B' => {
                self.advance(2);
                self.atom(if next == 'b' { r"(?-u:\b)" } else { r"(?-u:\B)" });
            }
            'Q' => {
                self.advance(2);
                self.quoted();
            }
            'p' | 'P' => {
                let mut class = String::new();
                self.unicode_class(before, &mut class)?;
                self.atom(&class);
            }
            _ => match perl_class(next) {
                Some(class) => {
                    self.advance(2);
                    self.atom(class);
                }
                None => {
                    let character = self.escaped_character()?;
                    self.literal_atom(character);
                }
            },
        }
        Ok(())
    }

    /// The text between `\Q` and `\E`.
    fn quoted(&mut self) {
        let end = self.rest.find(r"\E");
        let text = self.advance(end.unwrap_or(self.rest.len()));
        if end.is_some() {
            self.advance(2);
        }
        for character in text.chars() {
            self.literal_atom(character);
        }
    }

    /// `\n`, `\x41`, `\x{10FFFF}`, `\101`, `\.`
    fn escaped_character(&mut self) -> Result<char, PatternError> {
        let before = self.rest;
        self.advance(1);
        let Some(next) = self.rest.chars().next() else {
            return Err(PatternError::new("trailing backslash at end of expression", ""));
        };
        self.advance(next.len_utf8());
        let found = match next {
            'a' => Some('\x07'),
            'f' => Some('\x0c'),
            'n' => Some('\n'),
            'r' => Some('\r'),
            't' => Some('\t'),
            'v' => Some('\x0b'),
            'x' => self.hexadecimal(),
            '0' => self.octal(0, 2),
            '1'..='7' if self.rest.starts_with(|c: char| c.is_digit(8)) => {
                self.octal(next as u32 - '0' as u32, 2)
            }
            _ if next.is_ascii() && !next.is_ascii_alphanumeric() => Some(next),
            _ => None,
        };
        found.ok_or_else(|| PatternError::new("invalid escape sequence", self.since(before)))
    }

    fn octal(&mut self, mut value: u32, most_digits: usize) -> Option<char> {
        for _ in 0..most_digits {
            let Some(digit) = self.rest.chars().next().and_then(|c| c.to_digit(8)) else { break };
            self.advance(1);
            value = value * 8 + digit;
        }
        char::from_u32(value)
    }

    fn hexadecimal(&mut self) -> Option<char> {
        let digits = if let Some(body) = self.rest.strip_prefix('{') {
            let end = body.find('}')?;
            self.advance(end + 2);
            &body[..end]
        } else {
            let digits = self.rest.get(..2)?;
            self.advance(2);
            digits
        };
        let plain = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_hexdigit());
        if plain { u32::from_str_radix(digits, 16).ok().and_then(char::from_u32) } else { None }
    }

    /// `\pL`, `\p{Greek}`, `\P{^Greek}`
    fn unicode_class(&mut self, before: &'a str, out: &mut String) -> Result<(), PatternError> {
        let mut negated = self.rest.as_bytes()[1] == b'P';
        self.advance(2);
        let name = if self.rest.starts_with('{') {
            let Some(end) = self.rest.find('}') else {
                return Err(PatternError::new("invalid character class range", before));
            };
            let name = &self.rest[1..end];
            self.advance(end + 1);
            name
        } else {
            let length = self.rest.chars().next().map_or(0, char::len_utf8);
            self.advance(length)
        };
        let bare = name.strip_prefix('^').unwrap_or(name);
        negated ^= bare.len() != name.len();
        let Some(class) = unicode_group(bare) else {
            return Err(PatternError::new("invalid character class range", self.since(before)));
        };
        out.push_str(if negated { "[^" } else { "[" });
        out.push_str(&class);
        out.push(']');
        Ok(())
    }

    /// `[…]`
    fn class(&mut self) -> Result<(), PatternError> {
        let before = self.rest;
        self.advance(1);
        let mut class = String::from("[");
        if self.rest.starts_with('^') {
            self.advance(1);
            class.push('^');
        }
        let mut first = true;
        loop {
            if self.rest.is_empty() {
                return Err(PatternError::new("missing closing ]", before));
            }
            if self.rest.starts_with(']') && !first {
                break;
            }
            first = false;
            self.class_item(before, &mut class)?;
        }
        self.advance(1);
        class.push(']');
        self.atom(&class);
        Ok(())
    }

    fn class_item(&mut self, class_start: &'a str, class: &mut String) -> Result<(), PatternError> {
        let before = self.rest;
        if self.rest.starts_with("[:")
            && let Some(end) = self.rest[2..].find(":]")
        {
            let text = self.advance(end + 4);
            if !is_posix_class(text) {
                return Err(PatternError::new("invalid character class range", text));
            }
            class.push_str(text);
            return Ok(());
        }
        if self.rest.starts_with(r"\p") || self.rest.starts_with(r"\P") {
            return self.unicode_class(before, class);
        }
        let perl =
            self.rest.strip_prefix('\\').and_then(|rest| rest.chars().next()).and_then(perl_class);
        if let Some(perl) = perl {
            self.advance(2);
            class.push_str(perl);
            return Ok(());
        }
        let low = self.class_character(class_start)?;
        let ranged =
            self.rest.starts_with('-') && !self.rest[1..].starts_with(']') && self.rest.len() > 1;
        let high = if ranged {
            self.advance(1);
            self.class_character(class_start)?
        } else {
            low
        };
        if high < low {
            return Err(PatternError::new("invalid character class range", self.since(before)));
        }
        push_literal(class, low);
        if high != low {
            class.push('-');
            push_literal(class, high);
        }
        Ok(())
    }

    fn class_character(&mut self, class_start: &'a str) -> Result<char, PatternError> {
        match self.rest.chars().next() {
            None => Err(PatternError::new("missing closing ]", class_start)),
            Some('\\') => self.escaped_character(),
            Some(character) => {
                self.advance(character.len_utf8());
                Ok(character)
            }
        }
    }
}

fn push_literal(out: &mut String, character: char) {
    if regex_syntax::is_escapeable_character(character) {
        out.push('\\');
    }
    out.push(character);
}

/// A count of a repetition: digits without leading zeros; one that is too large is capped, so that
/// the caller refuses it.
fn count(text: &str) -> Option<u32> {
    let canonical = !text.is_empty()
        && text.bytes().all(|b| b.is_ascii_digit())
        && (text == "0" || !text.starts_with('0'));
    canonical.then(|| text.parse().unwrap_or(MOST_REPEATS + 1))
}

/// `\d` and its kin, which are ASCII in RE2.
fn perl_class(letter: char) -> Option<&'static str> {
    Some(match letter {
        'd' => "[0-9]",
        'D' => "[^0-9]",
        's' => r"[\t\n\x0C\r ]",
        'S' => r"[^\t\n\x0C\r ]",
        'w' => "[0-9A-Za-z_]",
        'W' => "[^0-9A-Za-z_]",
        _ => return None,
    })
}

fn is_posix_class(text: &str) -> bool {
    const NAMES: [&str; 14] = [
        "alnum", "alpha", "ascii", "blank", "cntrl", "digit", "graph", "lower", "print", "punct",
        "space", "upper", "word", "xdigit",
    ];
    let name = &text[2..text.len() - 2];
    NAMES.contains(&name.strip_prefix('^').unwrap_or(name))
}

/// The categories and scripts by the names that Go knows: exact in case, no other properties.
fn unicode_group(name: &str) -> Option<String> {
    const CATEGORIES: [&str; 35] = [
        "L", "Lu", "Ll", "Lt", "Lm", "Lo", "M", "Mn", "Mc", "Me", "N", "Nd", "Nl", "No", "P", "Pc",
        "Pd", "Ps", "Pe", "Pi", "Pf", "Po", "S", "Sm", "Sc", "Sk", "So", "Z", "Zs", "Zl", "Zp",
        "Cc", "Cf", "Co", "LC",
    ];
    let bare = name.replace([' ', '_', '-'], "");
    match name {
        "Any" => Some(r"\x{0}-\x{10FFFF}".to_owned()),
        // Unassigned code points are not in Go's C, and surrogates are not in any text.
        "C" => Some(r"\p{Cc}\p{Cf}\p{Co}".to_owned()),
        "Cs" => Some("a&&b".to_owned()),
        _ if CATEGORIES.contains(&bare.as_str()) => Some(format!(r"\p{{gc={bare}}}")),
        _ if name.len() > 2 && name.starts_with(|c: char| c.is_ascii_uppercase()) => {
            let known = regex_syntax::Parser::new().parse(&format!(r"\p{{sc={name}}}")).is_ok();
            known.then(|| format!(r"\p{{sc={name}}}"))
        }
        _ => None,
    }
}
