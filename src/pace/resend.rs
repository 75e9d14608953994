use http::Request;

/// The policy for sending refused requests again. [`PaceLayer::retry`](super::PaceLayer::retry) sets one.
/// The [module docs](super) have an example.
pub trait Resend<B>: Send + Sync {
    /// Returns the most times that a request is sent again.
    fn times(&self) -> u32;

    /// Copies a request before it is sent, or returns `None` if that is not possible.
    fn copy(&self, request: &Request<B>) -> Option<Request<B>>;
}

/// Sends each request once, which is the default of [`PaceLayer`](super::PaceLayer).
/// The [module docs](super) have an example.
#[derive(Clone, Copy, Debug, Default)]
pub struct Never;

impl<B> Resend<B> for Never {
    fn times(&self) -> u32 {
        0
    }

    fn copy(&self, _: &Request<B>) -> Option<Request<B>> {
        None
    }
}

/// Sends a refused request again, if its body can be cloned. Set by [`PaceLayer::retry`](super::PaceLayer::retry).
/// The [module docs](super) have an example.
#[derive(Clone, Copy, Debug)]
pub struct Cloned {
    times: u32,
}

impl Cloned {
    /// Sends a refused request again, up to `times` times.
    #[must_use]
    pub const fn times(times: u32) -> Self {
        Self { times }
    }
}

impl<B: Clone> Resend<B> for Cloned {
    fn times(&self) -> u32 {
        self.times
    }

    fn copy(&self, request: &Request<B>) -> Option<Request<B>> {
        Some(request.clone())
    }
}
