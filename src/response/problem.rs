use bytes::Bytes;
use http::{Response, StatusCode};
use serde::Serialize;

use super::{
    ResponseFormat,
    refusal::{Reason, Refusal},
    respond,
};

pub(super) const MEDIA_TYPE: &str = "application/problem+json";

/// Problem details ([RFC 9457](https://www.rfc-editor.org/rfc/rfc9457)), of the types that the `RateLimit` draft registers, or
/// of ACME's. Those of the draft are the default.
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
    /// Problems of the registered types: `quota-exceeded`, `temporary-reduced-capacity` and `abnormal-usage-detected`, and
    /// `about:blank` for all else. Where limits deny, `violated-policies` has their names.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            types: Types::Registered,
        }
    }

    /// Problems of the types that ACME clients know ([RFC 8555, section 6.7]), such as
    /// `urn:ietf:params:acme:error:rateLimited`.
    ///
    /// [RFC 8555, section 6.7]: https://www.rfc-editor.org/rfc/rfc8555#section-6.7
    #[must_use]
    pub const fn acme() -> Self {
        Self { types: Types::Acme }
    }
}

#[derive(Serialize)]
struct Document<'a> {
    r#type: &'a str,
    title: &'a str,
    status: u16,
    detail: &'a str,
    #[serde(rename = "violated-policies", skip_serializing_if = "Vec::is_empty")]
    violated: Vec<&'a str>,
}

impl ResponseFormat for Problem {
    fn respond(&self, refusal: &Refusal<'_>) -> Response<Bytes> {
        let (r#type, title) = match self.types {
            Types::Registered => registered(refusal),
            Types::Acme => acme(refusal),
        };
        let violated = match refusal.denial() {
            Some(_) => refusal.denials().map(|denial| denial.limit).collect(),
            None => Vec::new(),
        };
        let document = Document {
            r#type,
            title,
            status: refusal.status.as_u16(),
            detail: &refusal.message(),
            violated,
        };
        let body = serde_json::to_vec(&document).expect("text is always JSON");
        respond(refusal.status, MEDIA_TYPE, body.into())
    }

    fn media_type(&self) -> Option<&'static str> {
        Some(MEDIA_TYPE)
    }
}

/// The type and its title.
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

/// The type, and the status's own words, for ACME has no titles.
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
