use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::{Duration, SystemTime},
};

use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;

use super::{origin::Origin, reading::Reading};

pin_project! {
    /// The body of a response from [`Pace`](super::Pace): that of the client. It reads the trailers of gRPC.
    #[derive(Debug)]
    pub struct PacedBody<B> {
        #[pin]
        body: B,
        reader: Option<TrailerReader>,
    }
}

impl<B> PacedBody<B> {
    pub(super) fn new(body: B, reader: Option<TrailerReader>) -> Self {
        Self { body, reader }
    }

    /// The client's body.
    pub fn into_inner(self) -> B {
        self.body
    }
}

/// Records the trailers of a response for its server.
#[derive(Debug)]
pub(super) struct TrailerReader {
    pub(super) origin: Arc<Origin>,
    pub(super) max_wait: Duration,
}

impl TrailerReader {
    fn read(self, trailers: &HeaderMap) {
        if let Some(reading) = Reading::of_trailers(trailers, SystemTime::now()) {
            self.origin.heard_more(&reading, self.max_wait);
        }
    }
}

impl<B: Body> Body for PacedBody<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        let body = self.project();
        let frame = ready!(body.body.poll_frame(cx));
        if let Some(Ok(frame)) = &frame
            && let Some(trailers) = frame.trailers_ref()
            && let Some(reader) = body.reader.take()
        {
            reader.read(trailers);
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
