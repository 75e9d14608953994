//! Trailers-only gRPC responses: HTTP 200, no body, and the status among the headers.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Method, Response, StatusCode, header, request::Parts};
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};

use super::{format::response, refusal::Refusal};

const GRPC: &str = "application/grpc";
/// The media types of requests, without the suffix that names the encoding of messages.
const MEDIA_TYPES: [&str; 3] = [GRPC, "application/grpc-web", "application/grpc-web-text"];
const STATUS: HeaderName = HeaderName::from_static("grpc-status");
const MESSAGE: HeaderName = HeaderName::from_static("grpc-message");
const PUSHBACK: HeaderName = HeaderName::from_static("grpc-retry-pushback-ms");
/// The characters to escape in a gRPC message: all but printable ASCII, and `%`.
const ESCAPED: &AsciiSet = &CONTROLS.add(b'%');

/// Returns whether a request is one of gRPC or of gRPC-Web, by its content type. The HTTP version does not matter: an outer layer
/// that turns gRPC-Web into gRPC leaves the version at HTTP/1.1.
pub(super) fn is_grpc(request: &Parts) -> bool {
    let content_type = request.headers.get(header::CONTENT_TYPE);
    let bytes = content_type.map_or(&b""[..], HeaderValue::as_bytes);
    let mut parts = bytes.split(|byte| b"+;".contains(byte));
    let media = parts.next().unwrap_or_default().trim_ascii();
    request.method == Method::POST
        && MEDIA_TYPES
            .iter()
            .any(|grpc| media.eq_ignore_ascii_case(grpc.as_bytes()))
}

pub(super) fn refused(refusal: &Refusal<'_>) -> Response<Bytes> {
    let code = refusal.reason.codes().grpc;
    let message = refusal.message();
    let mut response = response(StatusCode::OK, GRPC, Bytes::new());
    let headers = response.headers_mut();
    // gRPC-Web has its own content types, and clients expect the type that they have sent.
    if let Some(own) = refusal.request.headers.get(header::CONTENT_TYPE) {
        headers.insert(header::CONTENT_TYPE, own.clone());
    }
    #[cfg(feature = "tonic")]
    details::put_on(headers, refusal);
    let message = utf8_percent_encode(&message, ESCAPED).to_string();
    let message = HeaderValue::try_from(message).expect("percent-encoded text is ASCII");
    headers.insert(STATUS, code.into());
    headers.insert(MESSAGE, message);
    headers.insert(PUSHBACK, pushback(refusal.retry_after()).into());
    response
}

/// Returns the milliseconds after which a client may retry, rounded up; -1 means never.
fn pushback(wait: Option<Duration>) -> i32 {
    let Some(wait) = wait else {
        return -1;
    };
    let ms = wait.as_micros().div_ceil(1000).max(1);
    i32::try_from(ms).unwrap_or(i32::MAX)
}

/// Writes the header `grpc-status-details-bin`.
#[cfg(feature = "tonic")]
mod details {
    use http::HeaderMap;
    use tonic::{Code, Status};
    use tonic_types::{ErrorDetails, StatusExt};

    use crate::{
        limiter::NotAdmitted,
        response::{
            refusal::{Reason, Refusal},
            responder::record,
        },
    };

    pub(super) fn put_on(headers: &mut HeaderMap, refusal: &Refusal<'_>) {
        let added = status(refusal).add_header(headers);
        added.expect("text is percent-encoded, and bytes are base64");
    }

    /// The status that a layer refuses calls with: its code, message, `RetryInfo`, `QuotaFailure` and reference, which is logged.
    impl From<NotAdmitted> for Status {
        fn from(denied: NotAdmitted) -> Self {
            let (call, ()) = http::Request::new(()).into_parts();
            denied.refused(&call, |refusal| {
                record(&refusal);
                status(&refusal)
            })
        }
    }

    fn status(refusal: &Refusal<'_>) -> Status {
        let code = refusal.reason.codes().grpc;
        let message = refusal.message();
        let mut details = ErrorDetails::new();
        details.set_request_info(&refusal.id, "");
        if let Some(wait) = refusal.retry_after() {
            details.set_retry_info(Some(wait));
        }
        for limit in refusal.denials() {
            let subject = match limit.client() {
                Some(id) => format!("{}:{id}", limit.limit),
                None => limit.limit.into(),
            };
            let description = match refusal.reason {
                Reason::TooCostly { .. } => message.clone(),
                _ => limit.to_string(),
            };
            details.add_quota_failure_violation(subject, description);
        }
        Status::with_error_details(Code::from_i32(code), message, details)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pushback_is_the_wait_rounded_up_to_a_millisecond() {
        for (us, ms) in [
            (1, 1),
            (1000, 1),
            (333_334, 334),
            (1_000_000, 1000),
            (2_147_483_647_000, i32::MAX),
            (u64::MAX, i32::MAX),
        ] {
            assert_eq!(pushback(Some(Duration::from_micros(us))), ms, "{us}");
        }
        assert_eq!(pushback(Some(Duration::MAX)), i32::MAX);
        assert_eq!(pushback(None), -1);
    }
}
