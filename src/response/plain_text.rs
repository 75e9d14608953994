use bytes::Bytes;
use http::Response;

use super::{format::ResponseFormat, refusal::Refusal, refusal_body::RefusalBody};

pub(super) const MEDIA_TYPE: &str = "text/plain";

/// One line of text with the refusal's message. [`RateLimitLayer::respond_with`](crate::RateLimitLayer::respond_with)
/// has an example.
#[derive(Clone, Copy, Debug, Default)]
pub struct PlainText;

impl ResponseFormat for PlainText {
    fn respond(&self, refusal: &Refusal<'_>) -> Response<Bytes> {
        body(refusal).respond(refusal.status)
    }

    fn body(&self, refusal: &Refusal<'_>) -> Option<RefusalBody> {
        Some(body(refusal))
    }

    fn media_type(&self) -> Option<&'static str> {
        Some(MEDIA_TYPE)
    }
}

fn body(refusal: &Refusal<'_>) -> RefusalBody {
    let mut text = refusal.message();
    if let Some(id) = refusal.id() {
        text.push_str(", refusal-id ");
        text.push_str(&id.text());
    }
    text.push('\n');
    RefusalBody::new("text/plain; charset=utf-8", text)
}
