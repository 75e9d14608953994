//! The fields that clients of the protocol read: `x-ratelimit-limit-requests`, `-remaining-requests`, `-reset-requests`, and
//! the same for tokens.

use std::time::Duration;

use axum::{
    http::{HeaderName, HeaderValue},
    response::Response,
};
use tollgate::{
    layer::{Assessed, Assessment},
    limit::format_duration,
    transaction::Algorithm,
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

/// Adds the fields, by the decisions that the layer has left in the response.
pub(crate) fn show(response: &mut Response) {
    let Some(assessment) = response.extensions_mut().remove::<Assessment>() else {
        return;
    };
    for assessed in assessment.iter() {
        let names = match Measure::of(&assessed.limit) {
            Some(Measure::Requests) => REQUESTS,
            Some(Measure::Tokens) => TOKENS,
            _ => continue,
        };
        let Some(values) = values(assessed) else {
            continue;
        };
        for (name, value) in names.into_iter().zip(values) {
            response.headers_mut().insert(name, value);
        }
    }
}

/// The most that passes at once, what is left of it, and the time until all of it is back.
fn values(assessed: &Assessed) -> Option<[HeaderValue; 3]> {
    let decision = &assessed.decision;
    let most = match decision.algorithm()? {
        Algorithm::Gcra(gcra) => gcra.burst(),
        Algorithm::Window(window) => window.limit(),
        Algorithm::Quota(quota) => quota.quota(),
        _ => return None,
    };
    // Whole seconds, rounded up: some clients read no fractions.
    let reset = decision.reset_after();
    let seconds = reset.as_secs() + u64::from(reset.subsec_nanos() > 0);
    let reset = format_duration(Duration::from_secs(seconds));
    Some([
        most.into(),
        decision.remaining()?.into(),
        HeaderValue::try_from(reset).ok()?,
    ])
}
