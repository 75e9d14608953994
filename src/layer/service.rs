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
    conclusion::ResponseAdditions,
    config::Config,
    future::{ResponseFuture, ResponseState},
};

/// A service whose requests are limited. Created by [`RateLimitLayer`](super::RateLimitLayer).
///
/// It is ready when the inner service is. Errors of the inner service are passed on unchanged. A refusal is a response, not an
/// error.
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
        let mut additions = ResponseAdditions::default();
        let state = match self.config.start(&mut parts, &mut additions) {
            Ok(None) => ResponseState::inner(self.inner.call(Request::from_parts(parts, body))),
            Err(response) => {
                // Dropped, because the ready service may hold a permit that other requests wait for.
                self.inner = self.inner.clone();
                ResponseState::refused(response)
            }
            Ok(Some(waiting)) => {
                // Only the service that was polled ready may be called, so its clone stays behind.
                let clone = self.inner.clone();
                let ready = mem::replace(&mut self.inner, clone);
                ResponseState::waiting(ready, parts, body, waiting)
            }
        };
        ResponseFuture { state, additions }
    }
}

/// Keeps the name by which tonic routes requests to the service.
#[cfg(feature = "tonic")]
impl<S: tonic::server::NamedService> tonic::server::NamedService for RateLimit<S> {
    const NAME: &'static str = S::NAME;
}
