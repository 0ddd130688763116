//! Answers: a status, headers, and a body that is rendered while it is written.

use std::borrow::Cow;
use std::convert::Infallible;
use std::fmt;
use std::io;
use std::time::Instant;

use super::Names;
use super::collection::Collection;
use super::query::{Debug, Kind, Parameters};

/// What to answer.
pub struct Answer {
    pub(super) status: u16,
    pub(super) headers: Vec<(&'static str, Cow<'static, str>)>,
    is_head: bool,
    pub(super) content: Content,
}

pub(super) enum Content {
    Text(Cow<'static, str>),
    Collection(Box<Collection>),
    Names(Box<Names>),
}

impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Answer");
        shown.field("status", &self.status).field("headers", &self.headers).finish_non_exhaustive()
    }
}

/// The most that is handed on at once.
const CHUNK: usize = 64 << 10;

const TEXT: &str = "text/plain; charset=utf-8";

/// What the index may load: nothing but the style that it brings along.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'";

impl Answer {
    fn of(status: u16, content_type: &'static str, text: impl Into<Cow<'static, str>>) -> Self {
        let headers = vec![
            ("Content-Type", content_type.into()),
            ("X-Content-Type-Options", "nosniff".into()),
        ];
        Answer { status, headers, is_head: false, content: Content::Text(text.into()) }
    }

    fn with(mut self, name: &'static str, value: impl Into<Cow<'static, str>>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    pub(super) fn text(text: String) -> Self {
        Answer::of(200, TEXT, text)
    }

    pub(super) fn page(text: String) -> Self {
        let answer = Answer::of(200, "text/html; charset=utf-8", text);
        answer.with("Content-Security-Policy", POLICY).with("Cache-Control", "no-store")
    }

    pub(super) fn redirect(to: &'static str) -> Self {
        Answer::of(301, TEXT, "").with("Location", to)
    }

    /// A refusal, marked as Go's tool expects it: it shows the text then.
    #[cold]
    pub(super) fn refused(status: u16, reason: impl Into<Cow<'static, str>>) -> Self {
        let mut text: String = reason.into().into_owned();
        text.push('\n');
        Answer::of(status, TEXT, text).with("X-Go-Pprof", "1")
    }

    #[cold]
    pub(super) fn busy(most: usize) -> Self {
        let text = format!("{most} profiles are being collected: try again when one has ended");
        Answer::refused(503, text).with("Retry-After", "10")
    }

    #[cold]
    pub(super) fn not_allowed(or_post: bool) -> Self {
        let allowed = if or_post { "GET, HEAD, POST" } else { "GET, HEAD" };
        Answer::refused(405, format!("only {allowed} are answered here")).with("Allow", allowed)
    }

    /// The headers of a profile.
    pub(super) fn head(kind: Kind, parameters: Parameters) -> Self {
        if parameters.debug != Debug::Off {
            return Answer::text(String::new());
        }
        // As Go names them: what changed over a time is a difference.
        let is_delta = matches!(kind, Kind::Heap | Kind::Allocs) && parameters.seconds.is_some();
        let delta = if is_delta { "-delta" } else { "" };
        let name = format!("attachment; filename=\"{}{delta}\"", kind.name());
        Answer::of(200, "application/octet-stream", "").with("Content-Disposition", name)
    }

    pub(super) fn collection(collection: Collection) -> Self {
        let head = Answer::head(collection.kind, collection.parameters);
        Answer { content: Content::Collection(Box::new(collection)), ..head }
    }

    pub(super) fn names(names: Names) -> Self {
        Answer { content: Content::Names(Box::new(names)), ..Answer::text(String::new()) }
    }

    pub(super) fn for_method(self, method: &str) -> Self {
        Answer { is_head: method == "HEAD", ..self }
    }

    /// The HTTP status.
    pub fn status(&self) -> u16 {
        self.status
    }

    /// Names and values of the headers. Framing is the server's: the length of a profile is not known before
    /// it is rendered.
    pub fn headers(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.headers.iter().map(|(name, value)| (*name, &**value))
    }

    /// The length of the body, where it is known.
    pub fn content_length(&self) -> Option<usize> {
        match &self.content {
            Content::Text(text) => Some(text.len()),
            Content::Collection(_) | Content::Names(_) => None,
        }
    }

    /// Whether the answer has no body, being one to `HEAD`.
    pub fn is_head(&self) -> bool {
        self.is_head
    }

    /// When what was asked for will have been collected; none where there is nothing to wait for. An answer
    /// that is dropped before that ends its collection; one that is written before that has less in it.
    pub fn ready_at(&self) -> Option<Instant> {
        match &self.content {
            Content::Collection(collection) if !self.is_head => collection.ready_at,
            _ => None,
        }
    }

    /// Renders the body into `out` as it goes, in writes of at most 64 KiB. For `HEAD`, nothing. Blocks: an
    /// address that is new has its name looked for in the program's debug information. *Growth.*
    ///
    /// # Errors
    /// The first error of `out`, upon which rendering ends.
    pub fn write_to(self, out: &mut impl io::Write) -> io::Result<()> {
        self.try_fold((), |(), chunk| out.write_all(chunk))
    }

    /// Renders the body: `fold` takes each chunk of at most 64 KiB with the state so far and gives the
    /// next. Blocks as [`write_to`](Answer::write_to) does. *Growth.*
    pub fn fold<S>(self, state: S, mut fold: impl FnMut(S, &[u8]) -> S) -> S {
        let fold = |state, chunk: &[u8]| Ok::<S, Infallible>(fold(state, chunk));
        let Ok(state) = self.try_fold(state, fold);
        state
    }

    /// As [`fold`](Answer::fold); ends rendering when `fold` fails.
    ///
    /// # Errors
    /// That of `fold`.
    pub fn try_fold<S, E>(
        self,
        state: S,
        mut fold: impl FnMut(S, &[u8]) -> Result<S, E>,
    ) -> Result<S, E> {
        match self.content {
            _ if self.is_head => Ok(state),
            Content::Text(text) => fold(state, text.as_bytes()),
            Content::Names(names) => names.write().as_bytes().chunks(CHUNK).try_fold(state, fold),
            Content::Collection(collection) => {
                // Taken out while it is folded; an error ends it.
                let mut folded = Some(Ok(state));
                collection.render(&mut |chunk| {
                    folded = match folded.take() {
                        Some(Ok(state)) => Some(fold(state, chunk)),
                        failed => failed,
                    };
                    matches!(folded, Some(Ok(_)))
                });
                folded.expect("every fold puts back what it takes out")
            }
        }
    }
}
