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
    additions::ResponseAdditions,
    body::ResponseBody,
    conclusion::{Conclusion, FinalResponse},
    waiting::Waiting,
};
use crate::task::{Closing, detached};

pin_project! {
    /// The response of [`RateLimit`](super::RateLimit).
    pub struct ResponseFuture<S, ReqBody>
    where
        S: Service<Request<ReqBody>>,
    {
        #[pin]
        state: ResponseState<S, ReqBody>,
    }
}

pin_project! {
    #[project = ResponseStateProj]
    enum ResponseState<S, ReqBody>
    where
        S: Service<Request<ReqBody>>,
    {
        Waiting { held: Option<Box<PendingRequest<S, ReqBody>>> },
        Inner { #[pin] future: S::Future, additions: ResponseAdditions },
        Closing { closing: Closing, ended: Option<Box<InnerResult<S::Response, S::Error>>> },
        Refused { refused: Option<Box<FinalResponse>> },
    }
}

/// A request that waits for its decision, and the ready service to call with it.
struct PendingRequest<S, ReqBody> {
    inner: S,
    parts: Parts,
    body: ReqBody,
    waiting: Waiting,
}

impl<S, ReqBody> PendingRequest<S, ReqBody>
where
    S: Service<Request<ReqBody>>,
{
    /// Waits for the decision, and calls the inner service if the request may proceed.
    fn poll(held: &mut Option<Box<Self>>, cx: &mut Context<'_>) -> Poll<ResponseState<S, ReqBody>> {
        let pending = held.as_mut().expect("held until it is decided");
        let Self { parts, waiting, .. } = &mut **pending;
        let mut additions = ResponseAdditions::default();
        let conclusion = ready!(waiting.poll(parts, &mut additions, cx));
        let mut request = held.take().expect("as above");
        Poll::Ready(match conclusion {
            Conclusion::Proceed => ResponseState::Inner {
                future: request
                    .inner
                    .call(Request::from_parts(request.parts, request.body)),
                additions,
            },
            Conclusion::Refuse(refused) => ResponseState::Refused {
                refused: Some(refused),
            },
        })
    }
}

/// The result of the inner service, and the additions to the response.
type InnerResult<R, E> = (Result<R, E>, ResponseAdditions);

impl<S, ReqBody> ResponseFuture<S, ReqBody>
where
    S: Service<Request<ReqBody>>,
{
    #[inline]
    pub(super) fn inner(future: S::Future, additions: ResponseAdditions) -> Self {
        Self {
            state: ResponseState::Inner { future, additions },
        }
    }

    #[inline]
    pub(super) fn refused(refused: Box<FinalResponse>) -> Self {
        Self {
            state: ResponseState::Refused {
                refused: Some(refused),
            },
        }
    }

    pub(super) fn waiting(inner: S, parts: Parts, body: ReqBody, waiting: Waiting) -> Self {
        let held = PendingRequest {
            inner,
            parts,
            body,
            waiting,
        };
        Self {
            state: ResponseState::Waiting {
                held: Some(Box::new(held)),
            },
        }
    }
}

impl<S, ReqBody, ResBody> Future for ResponseFuture<S, ReqBody>
where
    S: Service<Request<ReqBody>, Response = Response<ResBody>>,
    ResBody: Body<Data = Bytes>,
{
    type Output = Result<Response<ResponseBody<ResBody>>, S::Error>;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.project().state;
        loop {
            let next = match state.as_mut().project() {
                ResponseStateProj::Waiting { held } => ready!(PendingRequest::poll(held, cx)),
                ResponseStateProj::Inner { future, additions } => {
                    let ended = ready!(future.poll(cx));
                    if ended.is_err() {
                        additions.permits = None;
                    }
                    if additions.settlement.is_none() {
                        return Poll::Ready(ended.map(|response| additions.put_on_inner(response)));
                    }
                    let (ended, closing) = additions.settle(ended);
                    let Some(closing) = closing else {
                        return Poll::Ready(ended.map(|response| additions.put_on_inner(response)));
                    };
                    // The client gets its answer once its charge is corrected.
                    ResponseState::Closing {
                        closing: detached(closing),
                        ended: Some(Box::new((ended, std::mem::take(additions)))),
                    }
                }
                ResponseStateProj::Closing { closing, ended } => {
                    ready!(closing.as_mut().poll(cx));
                    let (ended, mut additions) =
                        *ended.take().expect("polled again after it was ready");
                    return Poll::Ready(ended.map(|response| additions.put_on_inner(response)));
                }
                ResponseStateProj::Refused { refused } => {
                    let refused = ready!(FinalResponse::poll(refused, cx));
                    return Poll::Ready(Ok(refused.response.map(ResponseBody::refusal)));
                }
            };
            state.set(next);
        }
    }
}

impl<S, ReqBody> fmt::Debug for ResponseFuture<S, ReqBody>
where
    S: Service<Request<ReqBody>>,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseFuture").finish_non_exhaustive()
    }
}
