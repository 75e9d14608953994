use std::{
    mem,
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http::response::Parts;
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;

use super::open::Open;
use crate::rule::Outcome;

pin_project! {
    /// The body of a response from [`RateLimit`](super::RateLimit): that of the inner service, or that of a refusal.
    // What few responses have is boxed, so that the type is as large as the inner body.
    #[derive(Debug)]
    pub struct ResponseBody<B> {
        #[pin]
        kind: Kind<B>,
    }
}

pin_project! {
    #[project = KindProj]
    #[derive(Debug)]
    enum Kind<B> {
        Inner { #[pin] body: B },
        Watched { watched: Pin<Box<Watched<B>>> },
        Refusal { bytes: Box<Bytes> },
    }
}

pin_project! {
    /// A body whose end settles what is open of its request.
    #[derive(Debug)]
    struct Watched<B> {
        #[pin]
        body: B,
        watch: Watch,
    }
}

/// What is open of a request, with the head of its response.
#[derive(Debug)]
struct Watch {
    open: Option<Box<Open>>,
    head: Parts,
    sent: u64,
}

impl Watch {
    fn end(&mut self) {
        if let Some(mut open) = self.open.take() {
            open.end(Outcome::Response(&self.head, self.sent));
        }
    }
}

/// A body can be dropped half-way.
impl Drop for Watch {
    fn drop(&mut self) {
        self.end();
    }
}

impl<B> ResponseBody<B> {
    #[inline]
    pub(super) fn inner(body: B) -> Self {
        let kind = Kind::Inner { body };
        Self { kind }
    }

    pub(super) fn watched(body: B, head: Parts, open: Box<Open>) -> Self {
        let watch = Watch {
            open: Some(open),
            head,
            sent: 0,
        };
        let watched = Box::pin(Watched { body, watch });
        let kind = Kind::Watched { watched };
        Self { kind }
    }

    pub(super) fn refusal(bytes: Bytes) -> Self {
        let bytes = Box::new(bytes);
        let kind = Kind::Refusal { bytes };
        Self { kind }
    }
}

impl<B: Default> Default for ResponseBody<B> {
    fn default() -> Self {
        Self::inner(B::default())
    }
}

impl<B: Body<Data = Bytes>> Body for ResponseBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    #[inline]
    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        match self.project().kind.project() {
            KindProj::Inner { body } => body.poll_frame(cx),
            KindProj::Watched { watched } => watched.as_mut().poll_frame(cx),
            KindProj::Refusal { bytes } => {
                let bytes = mem::take(&mut **bytes);
                Poll::Ready((!bytes.is_empty()).then(|| Ok(Frame::data(bytes))))
            }
        }
    }

    #[inline]
    fn is_end_stream(&self) -> bool {
        match &self.kind {
            Kind::Inner { body } => body.is_end_stream(),
            Kind::Watched { watched } => watched.body.is_end_stream(),
            Kind::Refusal { bytes } => bytes.is_empty(),
        }
    }

    #[inline]
    fn size_hint(&self) -> SizeHint {
        match &self.kind {
            Kind::Inner { body } => body.size_hint(),
            Kind::Watched { watched } => watched.body.size_hint(),
            Kind::Refusal { bytes } => SizeHint::with_exact(bytes.len() as u64),
        }
    }
}

impl<B: Body<Data = Bytes>> Watched<B> {
    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let mut this = self.project();
        let frame = ready!(this.body.as_mut().poll_frame(cx));
        match &frame {
            Some(Ok(frame)) => {
                this.watch.sent += frame.data_ref().map_or(0, |data| data.len() as u64);
                // A server does not poll a body again whose length is sent.
                if this.body.is_end_stream() {
                    this.watch.end();
                }
            }
            Some(Err(_)) | None => this.watch.end(),
        }
        Poll::Ready(frame)
    }
}
