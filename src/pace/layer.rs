use std::{sync::Arc, time::Duration};

use super::{
    origins::Origins,
    resend::{Cloned, Never},
};

/// Holds requests back until their servers have room for them, according to their responses.
///
/// With this crate's servers, a client gets at least 0.97 of its rate and no refusal, and clients behind one address share it. The
/// [module docs](crate::pace#pacing) say how.
///
/// All services that are wrapped by one layer or its clones share what they have learned from responses. See the
/// [module docs](crate::pace) for an example.
#[derive(Clone, Debug)]
pub struct PaceLayer<R = Never> {
    pub(super) origins: Arc<Origins>,
    pub(super) max_wait: Duration,
    pub(super) resend: R,
}

impl PaceLayer {
    /// The default of [`max_wait`](Self::max_wait).
    pub const DEFAULT_MAX_WAIT: Duration = Duration::from_secs(60);

    /// Creates a layer that holds requests back for at most a minute, and sends each of them once.
    #[must_use]
    pub fn new() -> Self {
        Self {
            origins: Arc::default(),
            max_wait: Self::DEFAULT_MAX_WAIT,
            resend: Never,
        }
    }
}

impl<R> PaceLayer<R> {
    /// Sets the longest time for which a request is held back, over all of its retries. After that, it is sent,
    /// regardless of the server's responses. More than a year counts as a year.
    #[must_use]
    pub fn max_wait(mut self, max_wait: Duration) -> Self {
        const YEAR: Duration = Duration::from_secs(365 * 24 * 60 * 60);
        self.max_wait = max_wait.min(YEAR);
        self
    }

    /// Sends a refused request again, up to `times` times, each time when the server has room again. The body must
    /// be [`Clone`], as `Full<Bytes>` is. For others, see [`retry_with`](Self::retry_with).
    ///
    /// Only refusals are retried. A server has not processed a refused request, so this is safe for any method. A
    /// refusal is not retried if the server says that retrying is pointless, or asks for a longer wait than
    /// [`max_wait`](Self::max_wait) leaves. Then the caller gets the refusal.
    #[must_use]
    pub fn retry(self, times: u32) -> PaceLayer<Cloned> {
        self.retry_with(Cloned::times(times))
    }

    /// Sends refused requests again, like [`retry`](Self::retry), with another way to copy a request.
    #[must_use]
    pub fn retry_with<T>(self, resend: T) -> PaceLayer<T> {
        PaceLayer {
            origins: self.origins,
            max_wait: self.max_wait,
            resend,
        }
    }
}

impl Default for PaceLayer {
    fn default() -> Self {
        Self::new()
    }
}
