//! Trailers-only gRPC responses: HTTP 200, no body, and the status among the headers.

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Response, StatusCode, header, request::Parts};
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};

use super::{Denial, Refusal, respond};

const GRPC: &str = "application/grpc";
const STATUS: HeaderName = HeaderName::from_static("grpc-status");
const MESSAGE: HeaderName = HeaderName::from_static("grpc-message");
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

pub(super) fn denied(denial: &Denial<'_>) -> Response<Bytes> {
    let limit = denial.limit;
    let message = match denial.retry_after_secs() {
        Some(secs) => format!("rate limit `{limit}` exceeded: retry after {secs}s"),
        None => format!("rate limit `{limit}` exceeded"),
    };
    status(8, &message)
}

pub(super) fn refused(refusal: &Refusal<'_>) -> Response<Bytes> {
    let code = match refusal.status {
        StatusCode::BAD_REQUEST => 3,
        StatusCode::SERVICE_UNAVAILABLE => 14,
        _ => 13,
    };
    status(code, refusal.message)
}

fn status(code: u16, message: &str) -> Response<Bytes> {
    let message = utf8_percent_encode(message, ESCAPED).to_string();
    let message = HeaderValue::try_from(message).expect("percent-encoded text is ASCII");
    let mut response = respond(StatusCode::OK, GRPC, Bytes::new());
    response.headers_mut().insert(STATUS, code.into());
    response.headers_mut().insert(MESSAGE, message);
    response
}
