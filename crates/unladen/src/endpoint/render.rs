//! Answers whose bodies somebody else renders: what the listener, hyper and axum send besides metrics.
//!
//! Such a body may have to be waited for, as a profile over 30 seconds has to be. Whoever sends it sends the head
//! at once, waits, and drops the body when the client goes away meanwhile; nothing is rendered before its
//! time.

use std::borrow::Cow;
use std::fmt;
use std::time::Instant;

use super::{Answer, Content, ContentType};

/// A body that is rendered while it is sent.
pub trait Render: fmt::Debug + Send {
    /// Before when it is not to be rendered; none for at once. Dropping it until then, or later, gives up
    /// what it stands for.
    fn ready_at(&self) -> Option<Instant> {
        None
    }

    /// Gives the body to `give`, in chunks of at most 64 KiB, until that says that nobody takes more. Runs
    /// on a thread that may be blocked. A body that can't be brought to its end panics, upon which its
    /// connection is cut.
    fn render(self: Box<Self>, give: &mut dyn FnMut(&[u8]) -> bool);
}

impl Answer {
    /// An answer with headers and a body of one's own. The headers, whose names and values are taken as they
    /// are, may be 600 bytes long in all; framing is the server's. *Setup.*
    pub fn rendered(
        status: u16,
        headers: Vec<(&'static str, Cow<'static, str>)>,
        body: Box<dyn Render>,
    ) -> Self {
        Answer { headers, content: Content::Rendered(body), ..Answer::bare(status) }
    }

    /// An answer with headers and a text of one's own, with the same limit. *Setup.*
    pub fn whole(
        status: u16,
        headers: Vec<(&'static str, Cow<'static, str>)>,
        text: impl Into<Cow<'static, str>>,
    ) -> Self {
        Answer { headers, content: Content::Text(text.into()), ..Answer::bare(status) }
    }

    /// The same answer without its body, for `HEAD`.
    #[must_use]
    pub fn without_body(self) -> Self {
        Answer { is_head: true, ..self }
    }

    /// Before when the body is not to be rendered; none for at once.
    pub fn ready_at(&self) -> Option<Instant> {
        match &self.content {
            Content::Rendered(body) if !self.is_head => body.ready_at(),
            _ => None,
        }
    }

    /// Whether there is a body that somebody else renders.
    #[cfg(feature = "listener")]
    pub(super) fn is_rendered(&self) -> bool {
        matches!(self.content, Content::Rendered(_)) && !self.is_head
    }

    fn bare(status: u16) -> Self {
        Answer { content_type: ContentType::NONE, ..Answer::text(status, "") }
    }
}

/// Folds over what `body` gives; ends it when `fold` fails.
pub(super) fn try_fold<S, E>(
    body: Box<dyn Render>,
    state: S,
    mut fold: impl FnMut(S, &[u8]) -> Result<S, E>,
) -> Result<S, E> {
    // Taken out while it is folded; an error ends it.
    let mut folded = Some(Ok(state));
    body.render(&mut |chunk| {
        folded = match folded.take() {
            Some(Ok(state)) => Some(fold(state, chunk)),
            failed => failed,
        };
        matches!(folded, Some(Ok(_)))
    });
    folded.expect("every fold puts back what it takes out")
}
