use bytes::Bytes;
use http::Response;

use super::{ResponseFormat, refusal::Refusal, respond};

/// One line of text: the refusal's message.
#[derive(Clone, Copy, Debug, Default)]
pub struct PlainText;

impl ResponseFormat for PlainText {
    fn respond(&self, refusal: &Refusal<'_>) -> Response<Bytes> {
        let body = refusal.message() + "\n";
        respond(refusal.status, "text/plain; charset=utf-8", body.into())
    }
}
