//! Text that must not show: passwords, tokens, keys.

use std::fmt;

/// A secret. `Debug` and `Display` write `<secret>`; only [`Secret::reveal`] gives the text.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Secret(String);

/// What is written in place of a secret.
pub const REDACTED: &str = "<secret>";

impl Secret {
    /// Keeps `text` from being printed.
    pub fn new(text: impl Into<String>) -> Self {
        Secret(text.into())
    }

    /// The text itself, for the moment in which it is sent.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// Whether there is nothing to hide.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(REDACTED)
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(REDACTED)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_formatter_shows_it() {
        let secret = Secret::new("swordfish");
        assert!(!format!("{secret} {secret:?} {:#?}", Some(&secret)).contains("swordfish"));
        assert_eq!(secret.reveal(), "swordfish");
    }
}
