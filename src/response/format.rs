//! The formats of refusals.

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use serde::Serialize;
use serde_json::json;

use super::refusal::{Reason, Refusal};

/// Builds the response to a refused request that is not gRPC.
///
/// A format chooses the status, the content type and the body. The layer then adds these headers, unless the format
/// has set them: `Retry-After` if there is a wait, `Link` if the limit has documentation, and `Cache-Control:
/// no-store`. The fields of [`Headers`](super::Headers) follow.
///
/// It runs for every refused request, which can be many during an attack. It should neither block nor do much work,
/// and must not panic.
///
/// A closure is a format:
///
/// ```
/// use bytes::Bytes;
/// use tollgate::{ClientIp, Limit, RateLimitLayer, response::{Reason, Refusal}};
///
/// let limited = RateLimitLayer::new(Limit::per_second(10), ClientIp::peer());
/// let layer = limited.respond_with(|refusal: &Refusal<'_>| {
///     let advice = match (&refusal.reason, refusal.retry_after_secs()) {
///         (Reason::OverLimit, Some(secs)) => format!("slow down for {secs} s\n"),
///         (Reason::OverLimit | Reason::Blocked, _) => "not today\n".into(),
///         _ => refusal.message(),
///     };
///     let mut response = http::Response::new(Bytes::from(advice));
///     *response.status_mut() = refusal.status;
///     response
/// });
/// # let _ = layer;
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a format of refusals",
    note = "a closure does: `|refusal: &Refusal<'_>| -> http::Response<Bytes> {{ .. }}`",
    note = "see `tollgate::response` for ready ones, such as `Problem::new()`"
)]
pub trait ResponseFormat: Send + Sync + 'static {
    /// Builds the response.
    fn respond(&self, refusal: &Refusal<'_>) -> Response<Bytes>;
}

impl<F> ResponseFormat for F
where
    F: Fn(&Refusal<'_>) -> Response<Bytes> + Send + Sync + 'static,
{
    fn respond(&self, refusal: &Refusal<'_>) -> Response<Bytes> {
        self(refusal)
    }
}

/// Problem details ([RFC 9457](https://www.rfc-editor.org/rfc/rfc9457)), with the types that the `RateLimit` draft
/// registers (the default) or with those of ACME. The [guide](crate::guide::responses#formats) has an example.
#[derive(Clone, Copy, Debug, Default)]
pub struct Problem {
    has_acme_types: bool,
}

/// The container registry's JSON, `{"errors": [{"code", "message", "detail"}]}`, for
/// [`RateLimitLayer::respond_with`](crate::RateLimitLayer::respond_with).
#[derive(Clone, Copy, Debug, Default)]
pub struct Registry;

/// One line of text with the refusal's message. [`RateLimitLayer::respond_with`](crate::RateLimitLayer::respond_with)
/// has an example.
#[derive(Clone, Copy, Debug, Default)]
pub struct PlainText;

impl Problem {
    /// Creates the format with the registered types: `quota-exceeded`, `temporary-reduced-capacity` and `abnormal-usage-detected`,
    /// and `about:blank` for everything else. If limits deny the request, `violated-policies` lists their names.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            has_acme_types: false,
        }
    }

    /// Creates the format with the types of ACME ([RFC 8555, section 6.7]), such as `urn:ietf:params:acme:error:rateLimited`.
    ///
    /// [RFC 8555, section 6.7]: https://www.rfc-editor.org/rfc/rfc8555#section-6.7
    #[must_use]
    pub const fn acme() -> Self {
        Self {
            has_acme_types: true,
        }
    }
}

/// A problem document.
#[derive(Serialize)]
struct ProblemBody<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    title: &'a str,
    status: u16,
    detail: String,
    #[serde(rename = "refusal-id")]
    refusal_id: &'a str,
    #[serde(rename = "violated-policies", skip_serializing_if = "Vec::is_empty")]
    violated: Vec<&'a str>,
}

impl ResponseFormat for Problem {
    fn respond(&self, refusal: &Refusal<'_>) -> Response<Bytes> {
        let codes = refusal.reason.codes();
        let phrase = refusal.status.canonical_reason().unwrap_or_default();
        let (kind, title) = match codes.problem {
            // ACME defines no titles, so the title is the text of the status.
            _ if self.has_acme_types => (codes.acme, phrase),
            problem => problem.unwrap_or(("about:blank", phrase)),
        };
        let violated = refusal.denials().iter().map(|denial| denial.limit);
        let document = ProblemBody {
            kind,
            title,
            status: refusal.status.as_u16(),
            detail: refusal.message(),
            refusal_id: &refusal.id,
            violated: violated.collect(),
        };
        json(refusal.status, "application/problem+json", &document)
    }
}

impl ResponseFormat for Registry {
    fn respond(&self, refusal: &Refusal<'_>) -> Response<Bytes> {
        let mut detail = json!({"refusal-id": refusal.id});
        let message = match refusal.reason {
            Reason::OverLimit | Reason::Blocked => "too many requests".into(),
            _ => refusal.message(),
        };
        if let Some(denial) = refusal.denials().first() {
            detail["limiter"] = denial.limit.into();
            if let Some(client) = denial.client() {
                detail["entity"] = client.into();
            }
        }
        let code = refusal.reason.codes().registry;
        let error = json!({"code": code, "message": message, "detail": detail});
        json(
            refusal.status,
            "application/json",
            &json!({"errors": [error]}),
        )
    }
}

impl ResponseFormat for PlainText {
    fn respond(&self, refusal: &Refusal<'_>) -> Response<Bytes> {
        let text = format!("{}, refusal-id {}\n", refusal.message(), refusal.id);
        response(refusal.status, "text/plain; charset=utf-8", text)
    }
}

fn json(status: StatusCode, kind: &'static str, document: &impl Serialize) -> Response<Bytes> {
    let body = serde_json::to_vec(document).expect("text is always JSON");
    response(status, kind, body)
}

/// Builds a response with only a body and its type.
pub(super) fn response(
    status: StatusCode,
    kind: &'static str,
    body: impl Into<Bytes>,
) -> Response<Bytes> {
    let mut response = Response::new(body.into());
    *response.status_mut() = status;
    let headers = response.headers_mut();
    // Six headers: Content-Type, Retry-After, Link, Cache-Control and the two fields of the limits. Room for a seventh would double
    // the table.
    headers.reserve(6);
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}
