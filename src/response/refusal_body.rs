use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};

/// The body of a refusal, with its type. The layer adds the other header fields. Returned by
/// [`ResponseFormat::body`](super::ResponseFormat::body).
#[derive(Debug)]
pub struct RefusalBody {
    pub(super) content_type: HeaderValue,
    pub(super) bytes: Bytes,
}

impl RefusalBody {
    pub(super) fn new(content_type: &'static str, bytes: impl Into<Bytes>) -> Self {
        Self {
            content_type: HeaderValue::from_static(content_type),
            bytes: bytes.into(),
        }
    }

    /// Builds a response with only this body and its type.
    pub(super) fn respond(self, status: StatusCode) -> Response<Bytes> {
        let mut response = Response::new(self.bytes);
        *response.status_mut() = status;
        let headers = response.headers_mut();
        // Content-Type, Retry-After, Link, Cache-Control and the two fields of the limits. Room for a seventh would
        // double the size of the table.
        headers.reserve(6);
        headers.insert(header::CONTENT_TYPE, self.content_type);
        response
    }
}
