//! Trailers-only gRPC responses: HTTP 200, no body, and the status among the headers.

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Response, StatusCode, header, request::Parts};
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};

use super::{
    jitter::random,
    refusal::{Reason, Refusal},
    respond,
};

const GRPC: &str = "application/grpc";
const STATUS: HeaderName = HeaderName::from_static("grpc-status");
const MESSAGE: HeaderName = HeaderName::from_static("grpc-message");
const PUSHBACK: HeaderName = HeaderName::from_static("grpc-retry-pushback-ms");
/// What the gRPC protocol lets stand in a message: printable ASCII but `%`.
const ESCAPED: &AsciiSet = &CONTROLS.add(b'%');

pub(super) fn is_grpc(request: &Parts) -> bool {
    let content_type = request
        .headers
        .get(header::CONTENT_TYPE)
        .map(HeaderValue::as_bytes);
    let rest = content_type.and_then(|value| value.strip_prefix(GRPC.as_bytes()));
    rest.is_some_and(|rest| matches!(rest.first(), None | Some(b'+' | b';' | b'-')))
}

pub(super) fn refused(refusal: &Refusal<'_>) -> Response<Bytes> {
    let (code, message) = (code(&refusal.reason), refusal.message());
    let mut response = respond(StatusCode::OK, GRPC, Bytes::new());
    let headers = response.headers_mut();
    // gRPC-Web has types of its own, and a client expects the one that it sent.
    if let Some(own) = refusal.request.headers.get(header::CONTENT_TYPE) {
        headers.insert(header::CONTENT_TYPE, own.clone());
    }
    #[cfg(feature = "tonic")]
    details::put_on(headers, code, &message, refusal);
    let message = utf8_percent_encode(&message, ESCAPED).to_string();
    let message = HeaderValue::try_from(message).expect("percent-encoded text is ASCII");
    headers.insert(STATUS, code.into());
    headers.insert(MESSAGE, message);
    headers.insert(PUSHBACK, pushback(refusal.retry_after_secs()).into());
    response
}

fn code(reason: &Reason<'_>) -> i32 {
    match reason {
        Reason::OverLimit(_) | Reason::Blocked(_) | Reason::TooCostly(_) => 8,
        Reason::Listed { .. } => 7,
        Reason::NoId(missing) if !missing.is_servers_fault() => 3,
        Reason::Unavailable => 14,
        Reason::NoId(_) | Reason::Misconfigured => 13,
    }
}

/// The milliseconds after which a client may retry, which it does at just that instant: up to a tenth more or, if that
/// is less, a second, so that not all come at once. -1 tells it not to.
fn pushback(secs: Option<u64>) -> i32 {
    let Some(wait) = secs.map(|secs| secs.saturating_mul(1000)) else {
        return -1;
    };
    let wait = wait.saturating_add(random((wait / 10).max(1000)));
    i32::try_from(wait).unwrap_or(i32::MAX)
}

/// `grpc-status-details-bin`.
#[cfg(feature = "tonic")]
mod details {
    use std::time::Duration;

    use http::HeaderMap;
    use tonic::{Code, Status};
    use tonic_types::{ErrorDetails, StatusExt};

    use crate::response::refusal::{Reason, Refusal};

    pub(super) fn put_on(headers: &mut HeaderMap, code: i32, message: &str, refusal: &Refusal<'_>) {
        let mut details = ErrorDetails::new();
        if let Some(secs) = refusal.retry_after_secs() {
            details.set_retry_info(Some(Duration::from_secs(secs)));
        }
        for denial in refusal.denials() {
            let subject = match denial.client() {
                Some(id) => format!("{}:{id}", denial.limit),
                None => denial.limit.into(),
            };
            details.add_quota_failure_violation(subject, denial.to_string());
        }
        if let Reason::TooCostly(excess) = &refusal.reason
            && !details.has_quota_failure_violations()
        {
            details.add_quota_failure_violation(excess.limit, excess.to_string());
        }
        let status = Status::with_error_details(Code::from_i32(code), message, details);
        let added = status.add_header(headers);
        added.expect("text is percent-encoded, and bytes are base64");
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn pushback_is_a_little_later_than_the_wait_and_varies() {
        for (secs, most) in [(1, 2000), (10, 11_000), (60, 66_000), (86_400, 95_040_000)] {
            let all: HashSet<_> = (0..100).map(|_| pushback(Some(secs))).collect();
            let least = i32::try_from(secs * 1000).unwrap();
            assert!(all.iter().all(|ms| (least..=most).contains(ms)), "{all:?}");
            assert!(all.len() > 1);
        }
    }

    #[test]
    fn pushback_is_an_i32_whatever_the_wait() {
        for secs in [2_147_483, 2_147_484, u64::MAX] {
            assert!(pushback(Some(secs)) >= 2_147_483_000);
        }
        assert_eq!(pushback(Some(u64::MAX)), i32::MAX);
        assert_eq!(pushback(None), -1);
    }
}
