use std::{
    fmt,
    future::Future,
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http::{Request, Response, request::Parts};
use http_body::Body;
use pin_project_lite::pin_project;
use tower_service::Service;

use super::{
    body::ResponseBody,
    conclusion::{RefusalResponse, ResponseAdditions},
    waiting::WaitFuture,
};

pin_project! {
    /// The response of [`RateLimit`](super::RateLimit).
    pub struct ResponseFuture<S, B>
    where
        S: Service<Request<B>>,
    {
        #[pin]
        pub(super) state: ResponseState<S, B>,
        pub(super) additions: ResponseAdditions,
    }
}

pin_project! {
    #[project = ResponseStateProj]
    pub(super) enum ResponseState<S, B>
    where
        S: Service<Request<B>>,
    {
        Waiting { pending: Option<Box<PendingRequest<S, B>>> },
        Inner { #[pin] future: S::Future },
        Refused { response: Option<RefusalResponse> },
    }
}

/// A request that waits for its decision or its turn, and the ready service that gets it afterwards. Boxed, so that futures of
/// other requests stay small.
pub(super) struct PendingRequest<S, B> {
    ready: S,
    parts: Parts,
    body: B,
    waiting: WaitFuture,
}

impl<S, B> ResponseState<S, B>
where
    S: Service<Request<B>>,
{
    #[inline]
    pub(super) fn inner(future: S::Future) -> Self {
        Self::Inner { future }
    }

    pub(super) fn refused(response: RefusalResponse) -> Self {
        let response = Some(response);
        Self::Refused { response }
    }

    pub(super) fn waiting(ready: S, parts: Parts, body: B, waiting: WaitFuture) -> Self {
        let pending = Some(Box::new(PendingRequest {
            ready,
            parts,
            body,
            waiting,
        }));
        Self::Waiting { pending }
    }
}

impl<S, B, R> Future for ResponseFuture<S, B>
where
    S: Service<Request<B>, Response = Response<R>>,
    R: Body<Data = Bytes>,
{
    type Output = Result<Response<ResponseBody<R>>, S::Error>;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        loop {
            let next = match this.state.as_mut().project() {
                ResponseStateProj::Waiting { pending } => {
                    ready!(PendingRequest::poll(pending, this.additions, cx))
                }
                ResponseStateProj::Inner { future } => {
                    let result = ready!(future.poll(cx));
                    return Poll::Ready(this.additions.add_to(result));
                }
                ResponseStateProj::Refused { response } => {
                    let response = response.take().expect("polled again after it was ready");
                    return Poll::Ready(Ok(response.map(ResponseBody::refusal)));
                }
            };
            this.state.set(next);
        }
    }
}

impl<S, B> PendingRequest<S, B>
where
    S: Service<Request<B>>,
{
    /// Waits, and calls the inner service if the request may proceed.
    fn poll(
        pending: &mut Option<Box<Self>>,
        additions: &mut ResponseAdditions,
        cx: &mut Context<'_>,
    ) -> Poll<ResponseState<S, B>> {
        let waiting = pending.as_mut().expect("kept until it is decided");
        let waited = ready!(waiting.waiting.as_mut().poll(cx));
        let mut request = pending.take().expect("as above");
        Poll::Ready(match waited.conclude(&mut request.parts, additions) {
            Ok(()) => {
                let parts = Request::from_parts(request.parts, request.body);
                ResponseState::inner(request.ready.call(parts))
            }
            Err(response) => ResponseState::refused(response),
        })
    }
}

impl<S, B> fmt::Debug for ResponseFuture<S, B>
where
    S: Service<Request<B>>,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseFuture").finish_non_exhaustive()
    }
}
