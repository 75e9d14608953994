//! Work on each refusal that is off by default: jitter, references, and the log of refusals.

use std::time::Duration;

use tracing::{Span, field};

use super::{
    jitter,
    kept_refusal::{KeptRefusal, route},
    refusal::Refusal,
    refusal_id::RefusalId,
    refusal_log::RefusalLog,
};
use crate::limiter::is_listened_to;

#[derive(Clone, Debug, Default)]
pub(crate) struct Extras {
    pub(crate) jitter: Duration,
    pub(crate) refusal_ids: bool,
    pub(crate) kept: Option<RefusalLog>,
}

impl Extras {
    #[inline(never)]
    pub(super) fn apply(&self, refusal: &mut Refusal<'_>) {
        if !self.jitter.is_zero() {
            refusal.delay(jitter::varied(self.jitter));
        }
        if !self.refusal_ids {
            return;
        }
        let id = RefusalId::random();
        refusal.id = Some(id);
        if is_listened_to() {
            tell(id, refusal);
        }
        if let Some(log) = &self.kept {
            log.keep(KeptRefusal::new(id, refusal));
        }
    }
}

/// Emits the event of a refusal, and records its reference on the span of the request.
fn tell(id: RefusalId, refusal: &Refusal<'_>) {
    let id = id.text();
    let id = id.as_str();
    Span::current().record("rate_limiting.refusal_id", id);
    if !tracing::enabled!(tracing::Level::DEBUG) {
        return;
    }
    let reason = refusal.reason.as_str();
    let path = route(refusal.request);
    let retry_after = refusal.retry_after().map(field::debug);
    let Some(denial) = refusal.denial().or(refusal.charged().first()) else {
        let detail = refusal.reason.detail();
        tracing::debug!(
            refusal_id = id,
            reason,
            detail,
            path,
            retry_after,
            "refused"
        );
        return;
    };
    let detail = refusal.reason.detail();
    let own = denial.own_limit();
    let client = denial.kept_client();
    let client = client.as_ref().map(|client| client.shown());
    tracing::debug!(
        refusal_id = id,
        reason,
        detail,
        limit = denial.limit,
        values = own.map(|(limit, _)| field::display(limit)),
        overridden = own.map(|(_, is_override)| is_override),
        id = client.as_deref(),
        cost = denial.cost,
        remaining = denial.decision.remaining(),
        path,
        retry_after,
        "refused"
    );
}
