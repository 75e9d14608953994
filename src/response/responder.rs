use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Response, header};
use tracing::{Level, Span, field};

use super::{
    fields::ResponseFields,
    format::{Problem, ResponseFormat},
    grpc,
    refusal::{Denial, Reason, Refusal},
};
#[cfg(feature = "axum")]
use crate::key::route_of;
use crate::{decision::Decision, limiter::is_listened_to, metrics, random, rule::RefusalStatus};

/// Builds a layer's refusals.
#[derive(Clone)]
pub(crate) struct Responder {
    pub(crate) format: Arc<dyn ResponseFormat>,
    /// Whether gRPC requests are refused with a gRPC status.
    pub(crate) speaks_grpc: bool,
    /// The longest random time that is added to waits, so that clients do not come back together.
    pub(crate) jitter: Duration,
}

impl Responder {
    /// Builds the response to a refused request, with the fields that show how much is left.
    pub(crate) fn respond(
        &self,
        mut refusal: Refusal<'_>,
        fields: &mut ResponseFields,
    ) -> Response<Bytes> {
        let delay = varied(self.jitter);
        refusal.wait = refusal.wait.map(|wait| wait.saturating_add(delay));
        record(&refusal);
        let is_grpc = self.speaks_grpc && grpc::is_grpc(refusal.request);
        let mut response = if is_grpc {
            grpc::refused(&refusal)
        } else {
            self.format.respond(&refusal)
        };
        if is_grpc {
            // The status that closures which charge by outcome see: that of a refusal over plain HTTP.
            response
                .extensions_mut()
                .insert(RefusalStatus(refusal.status));
        }
        add_common(response.headers_mut(), &refusal, is_grpc);
        fields.add_to(response.headers_mut());
        response
    }
}

/// Adds the header fields of all refusals, unless the format has set them.
fn add_common(headers: &mut HeaderMap, refusal: &Refusal<'_>, is_grpc: bool) {
    if let Some(secs) = refusal.retry_after_secs() {
        headers.entry(header::RETRY_AFTER).or_insert(secs.into());
    }
    let no_store = HeaderValue::from_static("no-store");
    headers.entry(header::CACHE_CONTROL).or_insert(no_store);
    if is_grpc {
        return;
    }
    if let Reason::NoId(missing) = refusal.reason
        && let Some(challenge) = missing.challenge()
    {
        headers.entry(header::WWW_AUTHENTICATE).or_insert(challenge);
    }
    let help = refusal.docs().map(|docs| format!("<{docs}>;rel=\"help\""));
    if let Some(Ok(help)) = help.map(HeaderValue::try_from) {
        headers.entry(header::LINK).or_insert(help);
    }
}

/// Counts a refusal, records it on the span of the request, and emits an event for each limit that refuses it, the strictest
/// first.
pub(super) fn record(refusal: &Refusal<'_>) {
    let reason = refusal.reason.codes().name;
    metrics::refused(reason);
    if !is_listened_to() {
        return;
    }
    let span = Span::current();
    let id = field::display(&refusal.id);
    span.record("rate_limiting.refusal", reason);
    span.record("rate_limiting.refusal_id", &id);
    if tracing::enabled!(Level::DEBUG) {
        match &*refusal.limits {
            [] => emit(refusal, None),
            limits => limits.iter().for_each(|limit| emit(refusal, Some(limit))),
        }
    }
}

/// Emits the event of a refusal by a limit, or for another reason.
fn emit(refusal: &Refusal<'_>, denial: Option<&Denial<'_>>) {
    // If the store has not answered, there are no figures.
    let decision = denial
        .map(|denial| denial.decision)
        .filter(|decision| decision.limited());
    let values = denial.and_then(|denial| denial.member.by);
    let detail = match refusal.reason {
        Reason::Listed { list } => Some(list),
        Reason::NoId(missing) => Some(missing.reason_in_events()),
        _ => denial.and_then(Denial::block),
    };
    tracing::debug!(
        refusal_id = field::display(&refusal.id),
        reason = refusal.reason.codes().name,
        detail,
        limit = denial.map(|denial| denial.limit),
        values = values.map(|values| field::display(format!("{values:#}"))),
        overridden = values
            .and(denial)
            .map(|denial| denial.member.is_overridden()),
        id = denial.and_then(Denial::client_in_events).as_deref(),
        cost = denial.map(|denial| denial.cost),
        remaining = decision.and_then(Decision::remaining),
        next_after = decision.and_then(Decision::next_after).map(field::debug),
        reset_after = decision.and_then(Decision::reset_after).map(field::debug),
        source = decision.map(|decision| field::debug(decision.source())),
        path = route_of(refusal.request),
        retry_after = refusal.retry_after().map(field::debug),
        "refused"
    );
}

/// Without axum, the route is not known.
#[cfg(not(feature = "axum"))]
fn route_of(_: &http::request::Parts) -> Option<&str> {
    None
}

/// Returns a random wait of whole microseconds, up to `most`.
fn varied(most: Duration) -> Duration {
    let most = u64::try_from(most.as_micros()).unwrap_or(u64::MAX);
    Duration::from_micros(random::number() % most.saturating_add(1))
}

impl Default for Responder {
    fn default() -> Self {
        Self {
            format: Arc::new(Problem::new()),
            speaks_grpc: true,
            jitter: Duration::ZERO,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn wait_varies_within_its_bounds() {
        let most = Duration::from_micros(3);
        let seen: HashSet<_> = (0..1000).map(|_| varied(most).as_micros()).collect();
        assert_eq!(seen, HashSet::from([0, 1, 2, 3]));
        assert_eq!(varied(Duration::ZERO), Duration::ZERO);
        assert!(varied(Duration::MAX) <= Duration::from_micros(u64::MAX));
    }
}
