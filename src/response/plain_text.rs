use bytes::Bytes;
use http::{HeaderValue, Response};

use super::{
    format::{ResponseFormat, respond},
    refusal::Refusal,
};

pub(super) const MEDIA_TYPE: &str = "text/plain";

/// One line of text with the refusal's message. [`RateLimitLayer::respond_with`](crate::RateLimitLayer::respond_with)
/// has an example.
#[derive(Clone, Copy, Debug, Default)]
pub struct PlainText;

impl ResponseFormat for PlainText {
    fn respond(&self, refusal: &Refusal<'_>) -> Response<Bytes> {
        let body = refusal.message() + "\n";
        let content_type = HeaderValue::from_static("text/plain; charset=utf-8");
        respond(refusal.status, content_type, body.into())
    }

    fn media_type(&self) -> Option<&'static str> {
        Some(MEDIA_TYPE)
    }
}
