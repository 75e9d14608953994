//! Reads from a response when further requests can be sent.

use std::time::{Duration, SystemTime};

use http::{HeaderMap, StatusCode, header};

use super::fields::{DEFAULT_WAIT, RateFields, date, longest, rounded_up, single, values, whole};

/// The hints in a response.
#[derive(Debug)]
pub(super) struct ResponseHints {
    /// The advice, if the request was refused.
    pub(super) refusal: Option<RetryAdvice>,
    pub(super) fields: RateFields,
    /// Whether the response is from a cache, so that the server has not seen the request.
    pub(super) is_stored: bool,
}

/// The advice of a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RetryAdvice {
    /// The request can be sent again, after a time if the server names one.
    Later(Option<Duration>),
    /// Sending the request again does not help.
    Final,
}

impl ResponseHints {
    /// Reads the head of a response that arrived at `now`.
    pub(super) fn of(status: StatusCode, headers: &HeaderMap, now: SystemTime) -> Self {
        let now = date(headers, &header::DATE).unwrap_or(now);
        let age = single(headers, header::AGE.as_str()).and_then(whole);
        let is_stored = age.is_some_and(|age| age > 0);
        let mut fields = if is_stored {
            RateFields::default()
        } else {
            RateFields::read(headers, now)
        };
        let refusal = grpc_refusal(headers, now).or_else(|| http_refusal(status, headers, now));
        if let Some(RetryAdvice::Later(said)) = refusal {
            fields.wait = Some(wait_after_refusal(said, &fields));
            fields.remaining = Some(0);
        }
        Self {
            refusal,
            fields,
            is_stored,
        }
    }

    /// Returns whether the request was refused and can be sent again.
    pub(super) fn asks_to_retry(&self) -> bool {
        matches!(self.refusal, Some(RetryAdvice::Later(_)))
    }
}

/// Returns the wait after a refusal: the time that it names, or that of the fields. If it says to retry at once, or names a date in
/// the past, the default wait applies, because retries would otherwise be sent in a loop.
fn wait_after_refusal(said: Option<Duration>, fields: &RateFields) -> Duration {
    let mut waits = [said, fields.wait].into_iter().flatten();
    waits.find(|wait| !wait.is_zero()).unwrap_or(DEFAULT_WAIT)
}

/// Returns the refusal if the status is 429, or 403 or 503 with a time. Other failures are not about rates.
fn http_refusal(status: StatusCode, headers: &HeaderMap, now: SystemTime) -> Option<RetryAdvice> {
    let wait = retry_after(headers, now);
    match status {
        StatusCode::TOO_MANY_REQUESTS => Some(RetryAdvice::Later(wait)),
        StatusCode::FORBIDDEN | StatusCode::SERVICE_UNAVAILABLE => {
            wait.map(|wait| RetryAdvice::Later(Some(wait)))
        }
        _ => None,
    }
}

/// Returns the refusal of gRPC's `RESOURCE_EXHAUSTED`, and of `UNAVAILABLE` if it says when to come back.
fn grpc_refusal(headers: &HeaderMap, now: SystemTime) -> Option<RetryAdvice> {
    let status = single(headers, "grpc-status")?;
    let pushback = single(headers, "grpc-retry-pushback-ms");
    // A pushback that is not a number means no retry, like a negative one.
    let ms = pushback.map(|text| whole(text).map(Duration::from_millis));
    let wait = retry_info(headers).or(ms.flatten());
    match (status, ms) {
        ("8" | "14", Some(None)) => Some(RetryAdvice::Final),
        ("8", _) => Some(RetryAdvice::Later(
            wait.or_else(|| retry_after(headers, now)),
        )),
        ("14", _) => wait.map(|wait| RetryAdvice::Later(Some(wait))),
        _ => None,
    }
}

#[cfg(feature = "tonic")]
fn retry_info(headers: &HeaderMap) -> Option<Duration> {
    use tonic_types::StatusExt;

    let status = tonic::Status::from_header_map(headers)?;
    status.get_details_retry_info()?.retry_delay
}

#[cfg(not(feature = "tonic"))]
fn retry_info(_: &HeaderMap) -> Option<Duration> {
    None
}

/// Reads the wait of `retry-after-ms` or of `Retry-After`, which is in seconds or a date (RFC 9110, section 10.2.3). If there are
/// several, the longest counts.
fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let ms = values(headers, "retry-after-ms")
        .filter_map(rounded_up)
        .max();
    ms.map(Duration::from_millis)
        .or_else(|| longest(headers, header::RETRY_AFTER.as_str(), now))
}
