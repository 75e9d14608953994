use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use http::{header, response::Parts};
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;

use super::{request_permits::RequestPermits, settlement::Settlement};
use crate::rule::EndingKind;

pin_project! {
    /// The body of a response from [`RateLimit`](super::RateLimit): that of the inner service, or that of a refusal.
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
        Inner { #[pin] body: B, watch: Option<Box<Watch>>, permits: Option<RequestPermits> },
        Refusal { bytes: Option<Bytes> },
    }
}

impl<B> ResponseBody<B> {
    pub(super) fn inner(body: B) -> Self {
        Self {
            kind: BodyKind::Inner {
                body,
                watch: None,
                permits: None,
            },
        }
    }

    /// Holds permits until the body has ended.
    pub(super) fn with_permits(mut self, held: RequestPermits) -> Self
    where
        B: Body<Data = Bytes>,
    {
        if let BodyKind::Inner { body, permits, .. } = &mut self.kind
            && !body.is_end_stream()
        {
            *permits = Some(held);
        }
        self
    }

    /// Creates a body whose end settles the request's charges.
    pub(super) fn watched(body: B, head: Parts, settlement: Settlement) -> Self
    where
        B: Body<Data = Bytes>,
    {
        let mut watch = Watch {
            head,
            settlement,
            sent: 0,
        };
        if body.is_end_stream() {
            watch.close(true);
        }
        Self {
            kind: BodyKind::Inner {
                body,
                watch: Some(Box::new(watch)),
                permits: None,
            },
        }
    }

    pub(super) fn refusal(bytes: Bytes) -> Self {
        Self {
            kind: BodyKind::Refusal {
                bytes: Some(bytes).filter(|bytes| !bytes.is_empty()),
            },
        }
    }
}

/// The settlement that waits for a body's end.
#[derive(Debug)]
struct Watch {
    head: Parts,
    settlement: Settlement,
    sent: u64,
}

impl Watch {
    fn see<E>(&mut self, frame: Option<&Result<Frame<Bytes>, E>>, is_last: impl Fn() -> bool) {
        match frame {
            Some(Ok(frame)) => {
                self.sent += frame.data_ref().map_or(0, |data| data.len() as u64);
                if is_last() {
                    self.close(true);
                }
            }
            Some(Err(_)) => self.close(false),
            None => self.close(true),
        }
    }

    fn close(&mut self, complete: bool) {
        if self.settlement.is_closed() {
            return;
        }
        let outcome = EndingKind::Response(&self.head, self.sent, complete);
        if let Some(closing) = self.settlement.close(outcome, true) {
            self.settlement.detach(closing);
        }
    }
}

/// Settles when the body is dropped, possibly half-way.
impl Drop for Watch {
    fn drop(&mut self) {
        // A server does not poll the body of a response that is sent without one, such as that to HEAD. And over HTTP/1, a body
        // with a length is not polled again once that length is sent.
        let length = self.head.headers.get(header::CONTENT_LENGTH);
        let length = length.and_then(|length| length.to_str().ok()?.parse().ok());
        let complete = self.settlement.has_no_body(self.head.status) || length == Some(self.sent);
        let closed = catch_unwind(AssertUnwindSafe(|| self.close(complete)));
        if closed.is_err() {
            tracing::error!("a rule's closure panicked on a dropped response");
        }
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

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        match self.project().kind.project() {
            BodyKindProj::Inner {
                mut body,
                watch,
                permits,
            } => {
                let frame = body.as_mut().poll_frame(cx);
                if permits.is_some()
                    && let Poll::Ready(frame) = &frame
                    && (!matches!(frame, Some(Ok(_))) || body.is_end_stream())
                {
                    *permits = None;
                }
                if let (Some(watch), Poll::Ready(frame)) = (watch, &frame) {
                    watch.see(frame.as_ref(), || body.is_end_stream());
                }
                frame
            }
            BodyKindProj::Refusal { bytes } => {
                Poll::Ready(bytes.take().map(|b| Ok(Frame::data(b))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.kind {
            BodyKind::Inner { body, .. } => body.is_end_stream(),
            BodyKind::Refusal { bytes } => bytes.is_none(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.kind {
            BodyKind::Inner { body, .. } => body.size_hint(),
            BodyKind::Refusal { bytes } => {
                SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
            }
        }
    }
}
