//! Views: what a program that links instruments of others changes about them, as OpenTelemetry defines
//! it: name, help, which attributes are kept, how is aggregated. The first view that matches an
//! instrument applies.

use crate::described::{Described, Role};
use crate::shape::Buckets;

/// Which instruments, and what becomes of them.
#[derive(Clone, Debug, Default)]
pub struct View {
    instrument: Option<String>,
    scope: Option<String>,
    unit: Option<String>,
    role: Option<Role>,
    pub(crate) name: Option<String>,
    pub(crate) help: Option<String>,
    pub(crate) keep: Option<Box<[String]>>,
    pub(crate) buckets: Option<Buckets>,
    pub(crate) is_dropped: bool,
    pub(crate) limit: Option<usize>,
}

impl View {
    /// Of the instruments whose name this is; `*` stands for any text and `?` for a character.
    pub fn of(instrument: &str) -> Self {
        View { instrument: Some(instrument.to_owned()), ..View::default() }
    }

    /// Only in the scope of this name.
    #[must_use]
    pub fn in_scope(self, name: &str) -> Self {
        View { scope: Some(name.to_owned()), ..self }
    }

    /// Only of this unit.
    #[must_use]
    pub fn of_unit(self, unit: &str) -> Self {
        View { unit: Some(unit.to_owned()), ..self }
    }

    /// Only of this role.
    #[must_use]
    pub fn of_role(self, role: Role) -> Self {
        View { role: Some(role), ..self }
    }

    /// Under another name.
    #[must_use]
    pub fn rename(self, name: &str) -> Self {
        View { name: Some(name.to_owned()), ..self }
    }

    /// With another help.
    #[must_use]
    pub fn describe(self, help: &str) -> Self {
        View { help: Some(help.to_owned()), ..self }
    }

    /// With these attributes only. Series that differ in others become one, which counts for all.
    #[must_use]
    pub fn keep<'n>(self, names: impl IntoIterator<Item = &'n str>) -> Self {
        View { keep: Some(names.into_iter().map(str::to_owned).collect()), ..self }
    }

    /// Histograms with these buckets.
    #[must_use]
    pub fn buckets(self, buckets: impl Into<Buckets>) -> Self {
        View { buckets: Some(buckets.into()), ..self }
    }

    /// Not at all. Handles work and cost what they always do.
    #[must_use]
    pub fn drop(self) -> Self {
        View { is_dropped: true, ..self }
    }

    /// With at most so many series.
    #[must_use]
    pub fn limit(self, limit: usize) -> Self {
        View { limit: Some(limit), ..self }
    }

    pub(crate) fn matches(&self, described: &Described) -> bool {
        // What the program called it, where an exposition has to call it something else.
        let (name, unit) = match &described.original {
            Some(original) => (&original.name, &original.unit),
            None => (&described.name, &described.unit),
        };
        self.instrument.as_deref().is_none_or(|pattern| is_like(name, pattern))
            && self.unit.as_deref().is_none_or(|wanted| wanted == unit)
            && self.scope.as_deref().is_none_or(|wanted| wanted == described.scope.name())
            && self.role.is_none_or(|wanted| wanted == described.role)
    }
}

/// Whether `pattern`, with `*` and `?`, describes all of `name`. Linear in their product at worst.
fn is_like(name: &str, pattern: &str) -> bool {
    let (name, pattern): (Vec<char>, Vec<char>) =
        (name.chars().collect(), pattern.chars().collect());
    let (mut at, mut to) = (0, 0);
    // Where to go on after the last star when what follows it does not fit.
    let mut again = None;
    while at < name.len() {
        match pattern.get(to) {
            Some('*') => {
                again = Some((at, to));
                to += 1;
            }
            Some(&wanted) if wanted == '?' || wanted == name[at] => {
                at += 1;
                to += 1;
            }
            _ => match &mut again {
                Some((from, star)) => {
                    *from += 1;
                    (at, to) = (*from, *star + 1);
                }
                None => return false,
            },
        }
    }
    pattern[to..].iter().all(|&rest| rest == '*')
}

#[cfg(test)]
mod tests {
    use super::is_like;

    #[test]
    fn patterns() {
        for (name, pattern, expected) in [
            ("http.server.duration", "http.*", true),
            ("http.server.duration", "*.duration", true),
            ("http.server.duration", "*.server.*n", true),
            ("http.server.duration", "http", false),
            ("http", "????", true),
            ("http", "?????", false),
            ("aaab", "*a?b*", true),
            ("", "*", true),
            ("", "?", false),
            ("ab", "", false),
        ] {
            assert_eq!(is_like(name, pattern), expected, "{name} {pattern}");
        }
    }
}
