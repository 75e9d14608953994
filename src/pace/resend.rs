use http::Request;

/// Whether a request can be sent again if it is refused.
pub trait Resend<B>: Send + Sync {
    /// How often a request is sent again at most.
    fn times(&self) -> u32;

    /// Copies a request before it is sent, or answers `None` if that is not possible.
    fn copy(&self, request: &Request<B>) -> Option<Request<B>>;
}

/// Sends each request once.
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

/// Sends a refused request again. Its body can be cloned.
#[derive(Clone, Copy, Debug)]
pub struct Cloned {
    times: u32,
}

impl Cloned {
    /// Sends it so many times more.
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
