use std::{
    future::{Future, poll_fn},
    mem,
    pin::Pin,
    task::{Context, Poll},
    time::SystemTime,
};

use http::{Request, Response};
use tokio::time::Instant;
use tower_layer::Layer;
use tower_service::Service;

use super::{
    body::{PacedBody, TrailerReader},
    grpc,
    layer::PaceLayer,
    reading::Reading,
    resend::{Never, Resend},
};

/// A client whose requests are held back until their servers have room for them.
///
/// See the [module docs](crate::pace) for an example.
#[derive(Clone, Debug)]
pub struct Pace<S, R = Never> {
    inner: S,
    layer: PaceLayer<R>,
}

impl<S, R: Clone> Layer<S> for PaceLayer<R> {
    type Service = Pace<S, R>;

    fn layer(&self, inner: S) -> Pace<S, R> {
        Pace::new(inner, self.clone())
    }
}

impl<S, R> Pace<S, R> {
    pub(super) fn new(inner: S, layer: PaceLayer<R>) -> Self {
        Self { inner, layer }
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

impl<S, R, ReqBody, ResBody> Service<Request<ReqBody>> for Pace<S, R>
where
    S: Service<Request<ReqBody>, Response = Response<ResBody>> + Clone + Send + 'static,
    S::Future: Send,
    S::Error: Send,
    R: Resend<ReqBody> + Clone + 'static,
    ReqBody: Send + 'static,
    ResBody: Send + 'static,
{
    type Response = Response<PacedBody<ResBody>>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, S::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<ReqBody>) -> Self::Future {
        // The service that was polled ready is the one to call; its clone is not.
        let clone = self.inner.clone();
        let ready = mem::replace(&mut self.inner, clone);
        Box::pin(send(ready, request, self.layer.clone()))
    }
}

/// Sends a request when its server has room for it, and again if it is refused.
async fn send<S, R, ReqBody, ResBody>(
    mut service: S,
    mut request: Request<ReqBody>,
    layer: PaceLayer<R>,
) -> Result<Response<PacedBody<ResBody>>, S::Error>
where
    S: Service<Request<ReqBody>, Response = Response<ResBody>>,
    R: Resend<ReqBody>,
{
    let deadline = Instant::now() + layer.max_wait;
    let origin = layer.origins.of(request.uri());
    let mut tries = layer.resend.times();
    loop {
        let turn = origin.turn(deadline).await;
        let copy = match tries {
            0 => None,
            _ => layer.resend.copy(&request),
        };
        let response = service.call(request).await?;
        let reading = Reading::of(response.status(), response.headers(), SystemTime::now());
        let asks_to_retry = reading.asks_to_retry();
        let room_at = turn.heard(reading, layer.max_wait);
        match copy {
            Some(copy) if asks_to_retry && room_at <= deadline => request = copy,
            _ => {
                let reader = grpc::has_trailers(response.headers()).then_some(TrailerReader {
                    origin,
                    max_wait: layer.max_wait,
                });
                return Ok(response.map(|body| PacedBody::new(body, reader)));
            }
        }
        drop(response);
        tries -= 1;
        poll_fn(|cx| service.poll_ready(cx)).await?;
    }
}
