use std::{
    future::{Future, poll_fn},
    mem,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::{Duration, SystemTime},
};

use http::{Request, Response};
use tokio::time::Instant;
use tower_layer::Layer;
use tower_service::Service;

use super::{
    hints::ResponseHints,
    origin::{LONGEST_WAIT, Origins},
};

/// Holds requests back until their servers have room for them, according to their responses.
///
/// All services that are wrapped by one layer or its clones share what they have learned from responses. See the
/// [module docs](crate::pace) for an example. `R` is the number of [retries](Self::retry), or `()`.
#[derive(Clone, Debug)]
pub struct PaceLayer<R = ()> {
    origins: Arc<Origins>,
    max_wait: Duration,
    resend: R,
}

impl PaceLayer {
    /// Creates a layer that holds requests back for at most a minute, and sends each of them once.
    #[must_use]
    pub fn new() -> Self {
        Self {
            origins: Arc::default(),
            max_wait: Duration::from_secs(60),
            resend: (),
        }
    }
}

impl<R> PaceLayer<R> {
    /// Sets the longest time for which a request is held back, over all of its retries. After that, it is sent,
    /// regardless of the server's responses. More than a year counts as a year.
    #[must_use]
    pub fn max_wait(mut self, max_wait: Duration) -> Self {
        self.max_wait = max_wait.min(LONGEST_WAIT);
        self
    }

    /// Sends a refused request up to `times` more times, each time when the server has room again. The body must be [`Clone`], as
    /// `Full<Bytes>` is.
    ///
    /// Only refusals are retried. A server has not processed a refused request, so this is safe for any method. A refusal is not
    /// retried if the server says not to retry, or asks for a longer wait than [`max_wait`](Self::max_wait) leaves. Then the caller
    /// gets the refusal.
    #[must_use]
    pub fn retry(self, times: u32) -> PaceLayer<u32> {
        PaceLayer {
            origins: self.origins,
            max_wait: self.max_wait,
            resend: times,
        }
    }
}

impl Default for PaceLayer {
    fn default() -> Self {
        Self::new()
    }
}

impl<S, R: Clone> Layer<S> for PaceLayer<R> {
    type Service = Pace<S, R>;

    fn layer(&self, inner: S) -> Pace<S, R> {
        Pace {
            inner,
            layer: self.clone(),
        }
    }
}

/// Copies requests that are sent again. The [module docs](crate::pace) have an example.
pub trait Resend<B> {
    /// Copies a request before it is sent, unless it is not sent again after that. `tries` is the number of times that it was sent
    /// before.
    fn copy(&self, request: &Request<B>, tries: u32) -> Option<Request<B>>;
}

impl<B> Resend<B> for () {
    fn copy(&self, _: &Request<B>, _: u32) -> Option<Request<B>> {
        None
    }
}

/// The number of times that a refused request is sent again.
impl<B: Clone> Resend<B> for u32 {
    fn copy(&self, request: &Request<B>, tries: u32) -> Option<Request<B>> {
        (tries < *self).then(|| request.clone())
    }
}

/// A client whose requests are held back until their servers have room for them.
///
/// See the [module docs](crate::pace) for an example.
#[derive(Clone, Debug)]
pub struct Pace<S, R = ()> {
    inner: S,
    layer: PaceLayer<R>,
}

impl<S, R> Pace<S, R> {
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
    R: Resend<ReqBody> + Clone + Send + Sync + 'static,
    ReqBody: Send + 'static,
    ResBody: Send + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, S::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<ReqBody>) -> Self::Future {
        // Only the service that was polled ready may be called, so its clone stays behind.
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
) -> Result<Response<ResBody>, S::Error>
where
    S: Service<Request<ReqBody>, Response = Response<ResBody>>,
    R: Resend<ReqBody>,
{
    let deadline = Instant::now() + layer.max_wait;
    let origin = layer.origins.of(request.uri(), layer.max_wait);
    let mut tries = 0;
    loop {
        let in_flight = origin.turn(deadline).await;
        let copy = layer.resend.copy(&request, tries);
        let response = service.call(request).await?;
        let hints = ResponseHints::of(response.status(), response.headers(), SystemTime::now());
        let copy = copy.filter(|_| hints.asks_to_retry());
        let room_at = in_flight.hear(&hints);
        let Some(copy) = copy.filter(|_| room_at <= deadline) else {
            return Ok(response);
        };
        request = copy;
        tries += 1;
        drop(response);
        poll_fn(|cx| service.poll_ready(cx)).await?;
    }
}
