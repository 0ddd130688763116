//! Bodies of answers: all at once, or chunk by chunk.
//!
//! A body of chunks says when it is whole. One whose writer went away before that is an error, upon
//! which the connection is cut: no client takes a part for the whole.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Frame, SizeHint};
use tokio::sync::mpsc;

/// The body of an answer.
#[derive(Debug)]
pub(crate) struct Body(Kind);

#[derive(Debug)]
enum Kind {
    Whole(Bytes),
    Chunks(mpsc::Receiver<Chunk>),
}

/// What the writer of a body sends.
#[derive(Debug)]
pub(crate) enum Chunk {
    /// A part of the body.
    Part(Bytes),
    /// The body is whole.
    End,
}

/// The writer of a body went away before its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unfinished;

impl fmt::Display for Unfinished {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the answer was given up before its end")
    }
}

impl std::error::Error for Unfinished {}

impl Body {
    pub(crate) fn empty() -> Self {
        Body(Kind::Whole(Bytes::new()))
    }

    /// What the sender of `chunks` sends, until it sends the end.
    pub(crate) fn chunks(chunks: mpsc::Receiver<Chunk>) -> Self {
        Body(Kind::Chunks(chunks))
    }
}

impl<T: Into<Bytes>> From<T> for Body {
    fn from(bytes: T) -> Self {
        Body(Kind::Whole(bytes.into()))
    }
}

impl hyper::body::Body for Body {
    type Data = Bytes;
    type Error = Unfinished;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Unfinished>>> {
        match &mut self.0 {
            Kind::Whole(bytes) if bytes.is_empty() => Poll::Ready(None),
            Kind::Whole(bytes) => Poll::Ready(Some(Ok(Frame::data(std::mem::take(bytes))))),
            Kind::Chunks(chunks) => match std::task::ready!(chunks.poll_recv(context)) {
                Some(Chunk::Part(bytes)) => Poll::Ready(Some(Ok(Frame::data(bytes)))),
                Some(Chunk::End) => {
                    self.0 = Kind::Whole(Bytes::new());
                    Poll::Ready(None)
                }
                None => Poll::Ready(Some(Err(Unfinished))),
            },
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(&self.0, Kind::Whole(bytes) if bytes.is_empty())
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Kind::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Kind::Chunks(_) => SizeHint::default(),
        }
    }
}
