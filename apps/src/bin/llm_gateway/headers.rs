//! The fields that clients of the protocol read: `x-ratelimit-limit-requests`, `-remaining-requests`, `-reset-requests`, and
//! the same for tokens.

use std::time::Duration;

use axum::{
    http::{HeaderMap, HeaderName, HeaderValue},
    response::Response,
};
use tollgate::{
    Decision, Limits,
    id::Id,
    layer::{Assessment, LimitAssessment},
    limit::format_duration,
};

use super::plan_limits::Measure;

const REQUESTS: [HeaderName; 3] = [
    HeaderName::from_static("x-ratelimit-limit-requests"),
    HeaderName::from_static("x-ratelimit-remaining-requests"),
    HeaderName::from_static("x-ratelimit-reset-requests"),
];

const TOKENS: [HeaderName; 3] = [
    HeaderName::from_static("x-ratelimit-limit-tokens"),
    HeaderName::from_static("x-ratelimit-remaining-tokens"),
    HeaderName::from_static("x-ratelimit-reset-tokens"),
];

/// Adds the fields to a response that was passed on.
pub(crate) fn show(response: &mut Response, limits: &Limits) {
    let Some(assessment) = response.extensions_mut().remove::<Assessment>() else {
        return;
    };
    for LimitAssessment {
        limit,
        id,
        decision,
        ..
    } in assessment.iter()
    {
        add(response.headers_mut(), limits, limit, id.as_ref(), decision);
    }
}

/// Adds the fields of one limit.
pub(crate) fn add(
    headers: &mut HeaderMap,
    limits: &Limits,
    limit: &str,
    id: Option<&Id>,
    decision: &Decision,
) {
    let names = match Measure::of(limit) {
        Some(Measure::Requests) => REQUESTS,
        Some(Measure::Tokens) => TOKENS,
        _ => return,
    };
    let most = id.and_then(|id| limits.get(limit)?.limit_of(id.as_str()).ok()??.max_cost());
    if let Some(values) = most.and_then(|most| values(most, decision)) {
        for (name, value) in names.into_iter().zip(values) {
            headers.insert(name, value);
        }
    }
}

/// The most that passes at once, what is left of it, and the time until all of it is back.
fn values(most: u32, decision: &Decision) -> Option<[HeaderValue; 3]> {
    // Whole seconds, rounded up: some clients read no fractions.
    let reset = decision.reset_after()?;
    let seconds = reset.as_secs() + u64::from(reset.subsec_nanos() > 0);
    let reset = format_duration(Duration::from_secs(seconds));
    Some([
        most.into(),
        decision.remaining()?.into(),
        HeaderValue::try_from(reset).ok()?,
    ])
}
