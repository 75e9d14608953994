//! Work on each refusal that is off by default: jitter, and references with their events.

use std::{ptr, time::Duration};

use http::request::Parts;
use tracing::{Level, Span, field};

use super::{denial::Denial, jitter, refusal::Refusal, refusal_id::RefusalId};
use crate::{decision::Decision, limiter::is_listened_to};

#[derive(Clone, Debug, Default)]
pub(crate) struct Extras {
    pub(crate) jitter: Duration,
    pub(crate) refusal_ids: bool,
}

impl Extras {
    #[inline(never)]
    pub(super) fn apply(&self, refusal: &mut Refusal<'_>) {
        if !self.jitter.is_zero() {
            refusal.delay(jitter::varied(self.jitter));
        }
        if self.refusal_ids {
            let id = RefusalId::random();
            refusal.id = Some(id);
            if is_listened_to() {
                record(id, refusal);
            }
        }
    }
}

/// Records the reference on the span of the request, and emits an event for each limit that refuses it, the strictest first.
fn record(id: RefusalId, refusal: &Refusal<'_>) {
    let id = id.text();
    Span::current().record("rate_limiting.refusal_id", id.as_str());
    if !tracing::enabled!(Level::DEBUG) {
        return;
    }
    let strictest = refusal.denial();
    let is_other = |denial: &&Denial<'_>| {
        strictest.is_none_or(|strictest| !ptr::eq(strictest.decision, denial.decision))
    };
    let others = refusal.charged().iter().filter(is_other);
    let mut denials = strictest.into_iter().chain(others).peekable();
    if denials.peek().is_none() {
        emit(&id, refusal, None);
    }
    for denial in denials {
        emit(&id, refusal, Some(denial));
    }
}

/// Emits the event of a refusal by a limit, or for another reason.
fn emit(refusal_id: &str, refusal: &Refusal<'_>, denial: Option<&Denial<'_>>) {
    let own = denial.and_then(Denial::own_limit);
    let client = denial.and_then(Denial::shown_client);
    let decision = denial.map(|denial| denial.decision);
    // A store that has not answered leaves no figures.
    let decided = decision.filter(|decision| decision.limited());
    let ends = |wait: Duration| (wait != Decision::NEVER).then(|| field::debug(wait));
    tracing::debug!(
        refusal_id,
        reason = refusal.reason.as_str(),
        detail = refusal.reason.detail(),
        limit = denial.map(|denial| denial.limit),
        values = own.map(|(limit, _)| field::display(limit)),
        overridden = own.map(|(_, is_override)| is_override),
        id = client.as_ref().map(|client| client.shown()).as_deref(),
        cost = denial.map(|denial| denial.cost),
        remaining = decided.and_then(Decision::remaining),
        next_after = decided.and_then(|decision| ends(decision.next_after())),
        reset_after = decided.and_then(|decision| ends(decision.reset_after())),
        source = decided.map(|decision| field::debug(decision.source())),
        path = route(refusal.request),
        retry_after = refusal.retry_after().map(field::debug),
        "refused"
    );
}

/// Returns the route that axum has matched, as written in the router.
#[cfg(feature = "axum")]
fn route(request: &Parts) -> Option<&str> {
    let path = request.extensions.get::<axum::extract::MatchedPath>();
    path.map(axum::extract::MatchedPath::as_str)
}

#[cfg(not(feature = "axum"))]
fn route(_: &Parts) -> Option<&str> {
    None
}
