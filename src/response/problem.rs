use bytes::Bytes;
use http::{Response, StatusCode};

use super::{
    format::ResponseFormat,
    message::Message,
    refusal::{Reason, Refusal},
    refusal_body::RefusalBody,
    text::ResponseText,
};

pub(super) const MEDIA_TYPE: &str = "application/problem+json";

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

    fn write(self, refusal: &Refusal<'_>) -> RefusalBody {
        let (opening, title) = match self.types {
            Types::Registered => registered(refusal),
            Types::Acme => acme(refusal),
        };
        // Written by hand, because denials must be fast.
        let mut body = Json::default();
        body.words(opening);
        body.words(title);
        body.words("\",\"status\":");
        body.words(refusal.status.as_str());
        body.words(",\"detail\":\"");
        refusal.write_message(&mut body);
        if let Some(id) = refusal.id() {
            body.words("\",\"refusal-id\":\"");
            body.words(&id.text());
        }
        match refusal.denial() {
            Some(_) => body.add_violated(refusal),
            None => body.words("\"}"),
        }
        RefusalBody::new(MEDIA_TYPE, body.0.to_bytes())
    }
}

impl ResponseFormat for Problem {
    fn respond(&self, refusal: &Refusal<'_>) -> Response<Bytes> {
        self.write(refusal).respond(refusal.status)
    }

    fn body(&self, refusal: &Refusal<'_>) -> Option<RefusalBody> {
        Some(self.write(refusal))
    }

    fn media_type(&self) -> Option<&'static str> {
        Some(MEDIA_TYPE)
    }
}

/// The text of a JSON document.
#[derive(Default)]
struct Json(ResponseText);

impl Json {
    /// Ends the message, and adds the names of the limits that deny, which need no escaping.
    fn add_violated(&mut self, refusal: &Refusal<'_>) {
        self.words("\",\"violated-policies\":[");
        for (i, denial) in refusal.denials().enumerate() {
            if i > 0 {
                self.words(",");
            }
            self.words("\"");
            self.words(denial.limit);
            self.words("\"");
        }
        self.words("]}");
    }

    #[cold]
    fn escaped(&mut self, text: &str) {
        let quoted = serde_json::to_string(text).expect("text is always JSON");
        self.words(&quoted[1..quoted.len() - 1]);
    }
}

/// Writes within a JSON string.
impl Message for Json {
    #[inline(always)]
    fn words(&mut self, words: &str) {
        self.0.push(words);
    }

    #[inline]
    fn text(&mut self, text: &str) {
        let is_plain = |byte: u8| byte >= b' ' && byte != b'"' && byte != b'\\';
        // An early exit would take longer for most texts.
        let bytes = text.bytes();
        match bytes.fold(true, |plain, byte| plain & is_plain(byte)) {
            true => self.words(text),
            false => self.escaped(text),
        }
    }
}

/// The type, up to where the title begins, and that.
fn registered(refusal: &Refusal<'_>) -> (&'static str, &'static str) {
    match refusal.reason {
        Reason::OverLimit(_) => (
            r#"{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":""#,
            "Quota Exceeded",
        ),
        Reason::Blocked(_) => (
            r#"{"type":"https://iana.org/assignments/http-problem-types#abnormal-usage-detected","title":""#,
            "Abnormal Usage Detected",
        ),
        Reason::Unavailable => (
            r#"{"type":"https://iana.org/assignments/http-problem-types#temporary-reduced-capacity","title":""#,
            "Temporary Reduced Capacity",
        ),
        _ => (r#"{"type":"about:blank","title":""#, phrase(refusal.status)),
    }
}

/// The same for ACME. ACME has no titles, so the title is the status's own text.
fn acme(refusal: &Refusal<'_>) -> (&'static str, &'static str) {
    let opening = match refusal.reason {
        Reason::OverLimit(_) | Reason::Blocked(_) => {
            r#"{"type":"urn:ietf:params:acme:error:rateLimited","title":""#
        }
        Reason::Listed { .. } => r#"{"type":"urn:ietf:params:acme:error:unauthorized","title":""#,
        _ if refusal.status.is_client_error() => {
            r#"{"type":"urn:ietf:params:acme:error:malformed","title":""#
        }
        _ => r#"{"type":"urn:ietf:params:acme:error:serverInternal","title":""#,
    };
    (opening, phrase(refusal.status))
}

fn phrase(status: StatusCode) -> &'static str {
    status.canonical_reason().unwrap_or_default()
}
