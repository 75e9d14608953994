//! A gRPC status, in the head or in the trailers of a response, with `RetryInfo` and the pushback.

use std::time::{Duration, SystemTime};

use http::{HeaderMap, HeaderName, header};

use super::field::{RetryAdvice, retry_after, single, whole};

const STATUS: HeaderName = HeaderName::from_static("grpc-status");
const PUSHBACK: HeaderName = HeaderName::from_static("grpc-retry-pushback-ms");

/// `RESOURCE_EXHAUSTED`, and `UNAVAILABLE` if it says when to come back.
pub(super) fn refusal(headers: &HeaderMap, now: SystemTime) -> Option<RetryAdvice> {
    let status = single(headers, &STATUS)?;
    let pushback = single(headers, &PUSHBACK);
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

/// Returns whether the status of a response is in its trailers. (gRPC-Web has it in the body.)
pub(super) fn has_trailers(head: &HeaderMap) -> bool {
    let content_type = head.get(header::CONTENT_TYPE);
    let is_grpc = content_type.is_some_and(|value| {
        let rest = value.as_bytes().strip_prefix(b"application/grpc");
        matches!(rest, Some([] | [b'+' | b';', ..]))
    });
    is_grpc && !head.contains_key(&STATUS)
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
