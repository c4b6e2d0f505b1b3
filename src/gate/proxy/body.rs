//! The two bodies that an answer of the proxy can have.

use super::relay::Relay;
use bytes::Bytes;
use http_body_util::Full;
use hyper::body::{Body, Frame, SizeHint};
use std::pin::Pin;
use std::task::{Context, Poll};

#[derive(Debug)]
pub enum Passed {
    /// As it comes.
    Stream(Box<Relay>),
    /// After all of it came.
    Whole(Full<Bytes>),
}

impl Passed {
    pub fn whole(bytes: impl Into<Bytes>) -> Self {
        Self::Whole(Full::new(bytes.into()))
    }
}

impl Body for Passed {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        match self.get_mut() {
            Self::Stream(relay) => Pin::new(relay.as_mut()).poll_frame(context),
            Self::Whole(full) => Pin::new(full)
                .poll_frame(context)
                .map_err(|never| match never {}),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Stream(relay) => relay.is_end_stream(),
            Self::Whole(full) => full.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Stream(relay) => relay.size_hint(),
            Self::Whole(full) => full.size_hint(),
        }
    }
}
