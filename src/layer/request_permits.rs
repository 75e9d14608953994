use std::sync::{Arc, Weak};

use smallvec::SmallVec;

use super::{charged_decisions::ChargedDecisions, config::LayerConfig};
use crate::{limiter::HeldPermit, rule::charged};

/// The permits of a request, on [concurrency limits](crate::Limit::concurrent).
///
/// The layer holds them until the body of the response has ended or is dropped. A handler whose work lasts longer, such as
/// that of a WebSocket, holds them with it: they are given back when all clones are dropped. Its layer needs
/// [`extensions(true)`](super::RateLimitLayer::extensions).
///
/// ```
/// use axum::{response::Response, extract::ws::WebSocketUpgrade};
/// use tollgate::layer::Assessment;
///
/// async fn chat(assessment: Assessment, upgrade: WebSocketUpgrade) -> Response {
///     let permits = assessment.permits();
///     upgrade.on_upgrade(move |mut socket| async move {
///         while let Some(Ok(_)) = socket.recv().await {}
///         drop(permits);
///     })
/// }
/// ```
#[derive(Clone, Debug)]
#[must_use = "the permits are given back when the last clone is dropped"]
pub struct RequestPermits(Arc<SmallVec<[HeldPermit; 1]>>);

/// The permits of a request, for as long as somebody holds them.
#[derive(Clone, Debug, Default)]
pub(super) struct WeakPermits(Weak<SmallVec<[HeldPermit; 1]>>);

impl RequestPermits {
    pub(super) fn downgrade(&self) -> WeakPermits {
        WeakPermits(Arc::downgrade(&self.0))
    }
}

impl WeakPermits {
    pub(super) fn upgrade(&self) -> Option<RequestPermits> {
        self.0.upgrade().map(RequestPermits)
    }
}

impl LayerConfig {
    /// Holds the permits that a request was charged, if there are any.
    #[inline]
    pub(super) fn permits(&self, spent: ChargedDecisions<'_>) -> Option<RequestPermits> {
        let mut decisions = spent.decisions.iter();
        match decisions.any(|decision| decision.hold().is_some()) {
            true => self.hold(spent),
            false => None,
        }
    }

    #[cold]
    fn hold(&self, spent: ChargedDecisions<'_>) -> Option<RequestPermits> {
        let held = spent.iter().filter_map(|(charge, decision)| {
            let transaction = charged(self.rules.limit(charge), charge.id.as_found());
            HeldPermit::of(&self.limiter, &transaction, decision)
        });
        let held: SmallVec<_> = held.collect();
        (!held.is_empty()).then(|| RequestPermits(Arc::new(held)))
    }
}
