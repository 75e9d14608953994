use std::{
    mem,
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http::{Response, response::Parts};
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;

use super::unsettled::UnsettledRequest;
use crate::rule::RequestResult;

pin_project! {
    /// The body of a response from [`RateLimit`](super::RateLimit): that of the inner service, or that of a refusal.
    // The rare bodies share one boxed variant, so the type is as large as the inner body.
    #[derive(Debug)]
    pub struct ResponseBody<B> {
        #[pin]
        kind: BodyKind<B>,
    }
}

pin_project! {
    #[project = BodyKindProj]
    #[derive(Debug)]
    enum BodyKind<B> {
        Inner { #[pin] body: B },
        Ours { body: Pin<Box<OurBody<B>>> },
    }
}

pin_project! {
    #[project = OurBodyProj]
    #[derive(Debug)]
    enum OurBody<B> {
        /// The end of this body settles the open charges of its request.
        Watched { #[pin] body: B, watch: BodyWatch },
        Refusal { bytes: Bytes },
    }
}

/// The unsettled request of a body, with the head of the response.
#[derive(Debug)]
struct BodyWatch {
    unsettled: Option<Box<UnsettledRequest>>,
    head: Parts,
    sent: u64,
}

impl BodyWatch {
    fn end(&mut self) {
        if let Some(mut unsettled) = self.unsettled.take() {
            unsettled.end(RequestResult::Response(&self.head, self.sent));
        }
    }
}

/// A body that is dropped before its end counts as ended.
impl Drop for BodyWatch {
    fn drop(&mut self) {
        self.end();
    }
}

impl<B> ResponseBody<B> {
    #[inline]
    pub(super) fn inner(body: B) -> Self {
        let kind = BodyKind::Inner { body };
        Self { kind }
    }

    fn watched(body: B, head: Parts, unsettled: Box<UnsettledRequest>) -> Self {
        let watch = BodyWatch {
            unsettled: Some(unsettled),
            head,
            sent: 0,
        };
        Self::ours(OurBody::Watched { body, watch })
    }

    pub(super) fn refusal(bytes: Bytes) -> Self {
        Self::ours(OurBody::Refusal { bytes })
    }

    fn ours(body: OurBody<B>) -> Self {
        let body = Box::pin(body);
        let kind = BodyKind::Ours { body };
        Self { kind }
    }
}

impl<B: Body> ResponseBody<B> {
    /// Settles the charges that depend on the head of a response. If others depend on its end, the body is watched. An error of the
    /// service settles all charges.
    pub(super) fn settling<E>(
        mut unsettled: Box<UnsettledRequest>,
        result: Result<Response<B>, E>,
    ) -> Result<Response<Self>, E> {
        let response = match result {
            Ok(response) => response,
            Err(error) => {
                unsettled.end(RequestResult::Failed);
                return Err(error);
            }
        };
        let (head, body) = response.into_parts();
        let depends_on_body = unsettled.settle_by_head(&head);
        if depends_on_body && body.is_end_stream() {
            unsettled.end(RequestResult::Response(&head, 0));
        } else if depends_on_body && unsettled.is_needed() {
            let body = Self::watched(body, head.clone(), unsettled);
            return Ok(Response::from_parts(head, body));
        }
        Ok(Response::from_parts(head, Self::inner(body)))
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
            BodyKindProj::Inner { body } => body.poll_frame(cx),
            BodyKindProj::Ours { body } => body.as_mut().poll_frame(cx),
        }
    }

    #[inline]
    fn is_end_stream(&self) -> bool {
        match &self.kind {
            BodyKind::Inner { body } => body.is_end_stream(),
            BodyKind::Ours { body } => body.is_end_stream(),
        }
    }

    #[inline]
    fn size_hint(&self) -> SizeHint {
        match &self.kind {
            BodyKind::Inner { body } => body.size_hint(),
            BodyKind::Ours { body } => body.size_hint(),
        }
    }
}

impl<B: Body<Data = Bytes>> Body for OurBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        match self.project() {
            OurBodyProj::Watched { mut body, watch } => {
                let frame = ready!(body.as_mut().poll_frame(cx));
                match &frame {
                    Some(Ok(frame)) => {
                        watch.sent += frame.data_ref().map_or(0, |data| data.len() as u64);
                        // A server does not poll a body again once its whole length was sent, so this may be the end.
                        if body.is_end_stream() {
                            watch.end();
                        }
                    }
                    Some(Err(_)) | None => watch.end(),
                }
                Poll::Ready(frame)
            }
            OurBodyProj::Refusal { bytes } => {
                let bytes = mem::take(bytes);
                Poll::Ready((!bytes.is_empty()).then(|| Ok(Frame::data(bytes))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Watched { body, .. } => body.is_end_stream(),
            Self::Refusal { bytes } => bytes.is_empty(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Watched { body, .. } => body.size_hint(),
            Self::Refusal { bytes } => SizeHint::with_exact(bytes.len() as u64),
        }
    }
}
