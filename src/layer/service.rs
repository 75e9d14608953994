use std::{
    mem,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use tower_service::Service;

use super::{
    body::ResponseBody,
    conclusion::Additions,
    config::Config,
    future::{ResponseFuture, State},
};

/// A service whose requests are limited. Created by [`RateLimitLayer`](super::RateLimitLayer).
///
/// It is ready when the inner service is. An error of the inner service stays what it is, and a refusal is a response.
#[derive(Clone, Debug)]
pub struct RateLimit<S> {
    inner: S,
    config: Arc<Config>,
}

impl<S> RateLimit<S> {
    pub(super) fn new(inner: S, config: Arc<Config>) -> Self {
        Self { inner, config }
    }
}

impl<S, B, R> Service<Request<B>> for RateLimit<S>
where
    S: Service<Request<B>, Response = Response<R>> + Clone,
    R: Body<Data = Bytes>,
{
    type Response = Response<ResponseBody<R>>;
    type Error = S::Error;
    type Future = ResponseFuture<S, B>;

    #[inline]
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    #[inline]
    fn call(&mut self, request: Request<B>) -> Self::Future {
        let (mut parts, body) = request.into_parts();
        let mut additions = Additions::default();
        let state = match self.config.start(&mut parts, &mut additions) {
            Ok(None) => State::inner(self.inner.call(Request::from_parts(parts, body))),
            Err(response) => {
                // The service that was polled ready may hold a place that others wait for.
                self.inner = self.inner.clone();
                State::refused(response)
            }
            Ok(Some(waiting)) => {
                // The service that was polled ready is the one to call; its clone is not.
                let clone = self.inner.clone();
                let ready = mem::replace(&mut self.inner, clone);
                State::waiting(ready, parts, body, waiting)
            }
        };
        ResponseFuture { state, additions }
    }
}

/// Keeps the name under which tonic routes to the service.
#[cfg(feature = "tonic")]
impl<S: tonic::server::NamedService> tonic::server::NamedService for RateLimit<S> {
    const NAME: &'static str = S::NAME;
}
