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
    additions::ResponseAdditions, body::ResponseBody, conclusion::Conclusion, config::LayerConfig,
    future::ResponseFuture, waiting::Progress,
};

/// A service whose requests are limited. Created by [`RateLimitLayer`](super::RateLimitLayer).
///
/// See the [module docs](crate::layer) for an example.
#[derive(Clone, Debug)]
pub struct RateLimit<S> {
    inner: S,
    config: Arc<LayerConfig>,
}

impl<S> RateLimit<S> {
    pub(super) fn new(inner: S, config: Arc<LayerConfig>) -> Self {
        Self { inner, config }
    }

    /// The service that is wrapped.
    pub fn get_ref(&self) -> &S {
        &self.inner
    }

    /// The service that is wrapped.
    pub fn get_mut(&mut self) -> &mut S {
        &mut self.inner
    }

    /// Consumes the layer's service, and returns the wrapped one.
    pub fn into_inner(self) -> S {
        self.inner
    }
}

impl<S, ReqBody, ResBody> Service<Request<ReqBody>> for RateLimit<S>
where
    S: Service<Request<ReqBody>, Response = Response<ResBody>> + Clone,
    ResBody: Body<Data = Bytes>,
{
    type Response = Response<ResponseBody<ResBody>>;
    type Error = S::Error;
    type Future = ResponseFuture<S, ReqBody>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<ReqBody>) -> Self::Future {
        let (mut parts, body) = request.into_parts();
        let mut additions = ResponseAdditions::default();
        match self.config.assess(&mut parts, &mut additions) {
            Progress::Decided(Conclusion::Proceed) => {
                let future = self.inner.call(Request::from_parts(parts, body));
                ResponseFuture::inner(future, additions)
            }
            Progress::Decided(Conclusion::Refuse(refused)) => ResponseFuture::refused(refused),
            Progress::Waiting(waiting) => {
                // The service that was polled ready is the one to call; its clone is not.
                let clone = self.inner.clone();
                let ready = mem::replace(&mut self.inner, clone);
                ResponseFuture::waiting(ready, parts, body, waiting)
            }
        }
    }
}

/// Keeps the name under which tonic routes to the service.
#[cfg(feature = "tonic")]
impl<S: tonic::server::NamedService> tonic::server::NamedService for RateLimit<S> {
    const NAME: &'static str = S::NAME;
}
