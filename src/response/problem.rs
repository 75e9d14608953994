use std::fmt;

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode};

use super::{
    format::{ResponseFormat, respond},
    refusal::{Reason, Refusal},
};

pub(super) const MEDIA_TYPE: &str = "application/problem+json";
const CONTENT_TYPE: HeaderValue = HeaderValue::from_static(MEDIA_TYPE);

/// Problem details ([RFC 9457](https://www.rfc-editor.org/rfc/rfc9457)), with the types that the `RateLimit` draft
/// registers (the default) or with those of ACME. The [guide](crate::guide::responses#formats) has an example.
#[derive(Clone, Copy, Debug, Default)]
pub struct Problem {
    types: Types,
}

#[derive(Clone, Copy, Debug, Default)]
enum Types {
    #[default]
    Registered,
    Acme,
}

impl Problem {
    /// Uses the registered types: `quota-exceeded`, `temporary-reduced-capacity` and `abnormal-usage-detected`, and
    /// `about:blank` for everything else. If limits deny the request, `violated-policies` lists their names.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            types: Types::Registered,
        }
    }

    /// Uses the types that ACME clients know ([RFC 8555, section 6.7]), such as
    /// `urn:ietf:params:acme:error:rateLimited`.
    ///
    /// [RFC 8555, section 6.7]: https://www.rfc-editor.org/rfc/rfc8555#section-6.7
    #[must_use]
    pub const fn acme() -> Self {
        Self { types: Types::Acme }
    }
}

impl ResponseFormat for Problem {
    fn respond(&self, refusal: &Refusal<'_>) -> Response<Bytes> {
        let (r#type, title) = match self.types {
            Types::Registered => registered(refusal),
            Types::Acme => acme(refusal),
        };
        let status = refusal.status.as_u16();
        // Written by hand, because this is on the path of a denial, and only the detail can need escapes.
        let mut body = Vec::with_capacity(384);
        let mut digits = itoa::Buffer::new();
        let head = [
            "{\"type\":\"",
            r#type,
            "\",\"title\":\"",
            title,
            "\",\"status\":",
            digits.format(status),
            ",\"detail\":",
        ];
        head.iter()
            .for_each(|part| body.extend_from_slice(part.as_bytes()));
        push_message(&mut body, refusal);
        if refusal.denial().is_some() {
            push_violated(&mut body, refusal);
        }
        body.push(b'}');
        respond(refusal.status, CONTENT_TYPE, body.into())
    }

    fn media_type(&self) -> Option<&'static str> {
        Some(MEDIA_TYPE)
    }
}

/// Writes the names of the limits that deny, which need no escaping.
fn push_violated(body: &mut Vec<u8>, refusal: &Refusal<'_>) {
    body.extend_from_slice(b",\"violated-policies\":[");
    for (i, denial) in refusal.denials().enumerate() {
        body.extend_from_slice(if i == 0 { b"\"" } else { b",\"" });
        body.extend_from_slice(denial.limit.as_bytes());
        body.push(b'"');
    }
    body.push(b']');
}

/// Writes text unchanged.
struct Plain<'a>(&'a mut Vec<u8>);

impl fmt::Write for Plain<'_> {
    #[inline]
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.extend_from_slice(text.as_bytes());
        Ok(())
    }
}

/// Writes the message as a JSON string. It is written first and then checked, because it hardly ever needs escapes.
fn push_message(body: &mut Vec<u8>, refusal: &Refusal<'_>) {
    body.push(b'"');
    let begin = body.len();
    // A Vec takes all that is written.
    let _ = refusal.write_message(&mut Plain(body));
    let is_plain = |byte: u8| byte >= b' ' && byte != b'"' && byte != b'\\';
    let bytes = body[begin..].iter();
    if bytes.fold(true, |plain, byte| plain & is_plain(*byte)) {
        body.push(b'"');
        return;
    }
    body.truncate(begin - 1);
    serde_json::to_writer(body, &refusal.message()).expect("a Vec takes all that is written");
}

/// Returns the registered type and its title.
fn registered(refusal: &Refusal<'_>) -> (&'static str, &'static str) {
    match refusal.reason {
        Reason::OverLimit(_) => (
            "https://iana.org/assignments/http-problem-types#quota-exceeded",
            "Quota Exceeded",
        ),
        Reason::Blocked(_) => (
            "https://iana.org/assignments/http-problem-types#abnormal-usage-detected",
            "Abnormal Usage Detected",
        ),
        Reason::Unavailable => (
            "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity",
            "Temporary Reduced Capacity",
        ),
        _ => ("about:blank", phrase(refusal.status)),
    }
}

/// Returns ACME's type, and the reason phrase of the status, because ACME has no titles.
fn acme(refusal: &Refusal<'_>) -> (&'static str, &'static str) {
    let r#type = match refusal.reason {
        Reason::OverLimit(_) | Reason::Blocked(_) => "urn:ietf:params:acme:error:rateLimited",
        Reason::Listed { .. } => "urn:ietf:params:acme:error:unauthorized",
        _ if refusal.status.is_client_error() => "urn:ietf:params:acme:error:malformed",
        _ => "urn:ietf:params:acme:error:serverInternal",
    };
    (r#type, phrase(refusal.status))
}

fn phrase(status: StatusCode) -> &'static str {
    status.canonical_reason().unwrap_or_default()
}
