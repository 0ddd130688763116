//! Bodies of answers: all at once, or chunk by chunk.

use std::convert::Infallible;
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
    Chunks(mpsc::Receiver<Bytes>),
}

impl Body {
    pub(crate) fn empty() -> Self {
        Body(Kind::Whole(Bytes::new()))
    }

    /// What the sender of `chunks` sends, until it is dropped.
    pub(crate) fn chunks(chunks: mpsc::Receiver<Bytes>) -> Self {
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
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match &mut self.0 {
            Kind::Whole(bytes) if bytes.is_empty() => Poll::Ready(None),
            Kind::Whole(bytes) => Poll::Ready(Some(Ok(Frame::data(std::mem::take(bytes))))),
            Kind::Chunks(chunks) => {
                chunks.poll_recv(context).map(|chunk| chunk.map(|bytes| Ok(Frame::data(bytes))))
            }
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
