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
    deciding::Waiting,
    task::{Closing, detached},
};

pin_project! {
    /// The response of [`RateLimit`](super::RateLimit).
    pub struct ResponseFuture<S, ReqBody>
    where
        S: Service<Request<ReqBody>>,
    {
        #[pin]
        state: State<S, ReqBody>,
    }
}

pin_project! {
    #[project = StateProj]
    enum State<S, ReqBody>
    where
        S: Service<Request<ReqBody>>,
    {
        Waiting { waiting: Waiting, held: Option<PendingRequest<S, ReqBody>> },
        Inner { #[pin] future: S::Future, mark: ResponseAdditions },
        Closing { closing: Closing, ended: Option<(Result<S::Response, S::Error>, ResponseAdditions)> },
        Refused { refused: Option<Box<FinalResponse>> },
    }
}

/// A request that waits for its decision, and the ready service to call with it.
struct PendingRequest<S, ReqBody> {
    inner: S,
    parts: Parts,
    body: ReqBody,
}

impl<S, ReqBody> ResponseFuture<S, ReqBody>
where
    S: Service<Request<ReqBody>>,
{
    #[inline]
    pub(super) fn decided(
        inner: &mut S,
        parts: Parts,
        body: ReqBody,
        conclusion: Conclusion,
    ) -> Self {
        Self {
            state: State::after(inner, parts, body, conclusion),
        }
    }

    pub(super) fn waiting(inner: S, parts: Parts, body: ReqBody, waiting: Waiting) -> Self {
        Self {
            state: State::Waiting {
                waiting,
                held: Some(PendingRequest { inner, parts, body }),
            },
        }
    }
}

impl<S, ReqBody> State<S, ReqBody>
where
    S: Service<Request<ReqBody>>,
{
    #[inline]
    fn after(inner: &mut S, mut parts: Parts, body: ReqBody, conclusion: Conclusion) -> Self {
        match conclusion {
            Conclusion::Proceed(mut mark) => {
                mark.announce(&mut parts);
                Self::Inner {
                    future: inner.call(Request::from_parts(parts, body)),
                    mark,
                }
            }
            Conclusion::Refuse(refused) => Self::Refused {
                refused: Some(refused),
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
                StateProj::Waiting { waiting, held } => {
                    let request = &held.as_ref().expect("held until it is decided").parts;
                    let conclusion = ready!(waiting.poll(request, cx));
                    let PendingRequest {
                        mut inner,
                        parts,
                        body,
                    } = held.take().expect("as above");
                    State::after(&mut inner, parts, body, conclusion)
                }
                StateProj::Inner { future, mark } => {
                    let ended = ready!(future.poll(cx));
                    let mut mark = std::mem::take(mark);
                    if mark.settlement.is_none() {
                        return Poll::Ready(mark.put_on_inner(ended));
                    }
                    let (ended, closing) = mark.settle(ended);
                    match closing {
                        // The client is to be answered when what it did is counted.
                        Some(closing) => State::Closing {
                            closing: detached(closing),
                            ended: Some((ended, mark)),
                        },
                        None => return Poll::Ready(mark.put_on_inner(ended)),
                    }
                }
                StateProj::Closing { closing, ended } => {
                    ready!(closing.as_mut().poll(cx));
                    let (ended, mark) = ended.take().expect("polled again after it was ready");
                    return Poll::Ready(mark.put_on_inner(ended));
                }
                StateProj::Refused { refused } => {
                    let response = ready!(FinalResponse::poll(refused, cx));
                    return Poll::Ready(Ok(response.map(ResponseBody::refusal)));
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
