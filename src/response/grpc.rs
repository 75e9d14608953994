//! Trailers-only gRPC responses: HTTP 200, no body, and the status among the headers.

use std::time::Duration;

use bytes::Bytes;
use http::{
    HeaderName, HeaderValue, Method, Response, StatusCode, Version, header, request::Parts,
};
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};

use super::{
    refusal::{Reason, Refusal},
    refusal_body::RefusalBody,
};

const GRPC: &str = "application/grpc";
const STATUS: HeaderName = HeaderName::from_static("grpc-status");
const MESSAGE: HeaderName = HeaderName::from_static("grpc-message");
const PUSHBACK: HeaderName = HeaderName::from_static("grpc-retry-pushback-ms");
/// The characters to escape in a gRPC message: all but printable ASCII, and `%`.
const ESCAPED: &AsciiSet = &CONTROLS.add(b'%');

/// Selects the requests that are refused with HTTP 200 and a `grpc-status`.
/// [`RateLimitLayer::grpc`](crate::RateLimitLayer::grpc) has an example.
///
/// Use [`Never`](Self::Never) behind a proxy that asks this server over HTTP whether to admit a request: nginx's
/// `auth_request`, Traefik's `ForwardAuth`, Envoy's `ext_authz` over HTTP. Such a proxy would treat the status 200 as
/// approval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Grpc {
    /// Requests that are certainly gRPC. gRPC: `POST` over HTTP/2, with `te: trailers` and the content type
    /// `application/grpc`. gRPC-Web: `POST` over any version, with `application/grpc-web` or
    /// `application/grpc-web-text`. A suffix (`+proto`) and parameters are allowed.
    #[default]
    Auto,
    /// All requests: for servers that serve only gRPC, behind a proxy that removes `te`.
    Always,
    /// No request.
    Never,
}

impl Grpc {
    /// Returns whether a request is refused with a gRPC status.
    pub(super) fn is(self, request: &Parts) -> bool {
        match self {
            Self::Auto => is_grpc(request),
            Self::Always => true,
            Self::Never => false,
        }
    }
}

fn is_grpc(request: &Parts) -> bool {
    request.method == Method::POST
        && match protocol(request) {
            Some(Protocol::Grpc) => request.version == Version::HTTP_2 && takes_trailers(request),
            Some(Protocol::Web) => true,
            None => false,
        }
}

/// The two protocols, which have their own content types.
enum Protocol {
    Grpc,
    Web,
}

fn protocol(request: &Parts) -> Option<Protocol> {
    let content_type = request.headers.get(header::CONTENT_TYPE)?.as_bytes();
    let end = content_type.iter().position(|byte| b"+;".contains(byte));
    match &content_type[..end.unwrap_or(content_type.len())] {
        b"application/grpc" => Some(Protocol::Grpc),
        b"application/grpc-web" | b"application/grpc-web-text" => Some(Protocol::Web),
        _ => None,
    }
}

fn takes_trailers(request: &Parts) -> bool {
    let lines = request.headers.get_all(header::TE).iter();
    let mut codings = lines.flat_map(|line| line.as_bytes().split(|byte| *byte == b','));
    codings.any(|coding| coding.trim_ascii().eq_ignore_ascii_case(b"trailers"))
}

pub(super) fn refused(refusal: &Refusal<'_>) -> Response<Bytes> {
    let (code, message) = (code(&refusal.reason), refusal.message());
    let mut response = RefusalBody::new(GRPC, Bytes::new()).respond(StatusCode::OK);
    let headers = response.headers_mut();
    // gRPC-Web has its own content types, and a client expects the type that it sent.
    let own = refusal.request.headers.get(header::CONTENT_TYPE);
    if let Some(own) = own.filter(|_| protocol(refusal.request).is_some()) {
        headers.insert(header::CONTENT_TYPE, own.clone());
    }
    #[cfg(feature = "tonic")]
    details::put_on(headers, code, &message, refusal);
    let message = utf8_percent_encode(&message, ESCAPED).to_string();
    let message = HeaderValue::try_from(message).expect("percent-encoded text is ASCII");
    headers.insert(STATUS, code.into());
    headers.insert(MESSAGE, message);
    headers.insert(PUSHBACK, pushback(refusal.retry_after()).into());
    response
}

fn code(reason: &Reason<'_>) -> i32 {
    match reason {
        Reason::OverLimit(_) | Reason::Blocked(_) | Reason::TooCostly(_) => 8,
        Reason::Listed { .. } => 7,
        Reason::NoId(missing) if missing.challenge().is_some() => 16,
        Reason::NoId(missing) if !missing.is_servers_fault() => 3,
        Reason::Unavailable => 14,
        Reason::NoId(_) | Reason::Misconfigured => 13,
    }
}

/// Returns the milliseconds after which a client may retry, rounded up; -1 means never.
fn pushback(wait: Option<Duration>) -> i32 {
    let Some(wait) = wait else {
        return -1;
    };
    let ms = wait.as_micros().div_ceil(1000).max(1);
    i32::try_from(ms).unwrap_or(i32::MAX)
}

/// `grpc-status-details-bin`.
#[cfg(feature = "tonic")]
mod details {
    use http::HeaderMap;
    use tonic::{Code, Status};
    use tonic_types::{ErrorDetails, StatusExt};

    use crate::response::refusal::{Reason, Refusal};

    pub(super) fn put_on(headers: &mut HeaderMap, code: i32, message: &str, refusal: &Refusal<'_>) {
        let mut details = ErrorDetails::new();
        if let Some(id) = refusal.id() {
            details.set_request_info(id.text().as_str(), "");
        }
        if let Some(wait) = refusal.retry_after() {
            details.set_retry_info(Some(wait));
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
