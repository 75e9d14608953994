use bytes::Bytes;
use http::Response;

use super::{refusal::Refusal, refusal_body::RefusalBody};

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
///         (Reason::OverLimit(_), Some(secs)) => format!("slow down for {secs} s\n"),
///         (Reason::OverLimit(_) | Reason::Blocked(_), _) => "not today\n".into(),
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

    /// The media type of its responses. If this returns `Some`, a client whose `Accept` prefers a problem document or
    /// plain text gets that instead.
    fn media_type(&self) -> Option<&'static str> {
        None
    }

    /// Builds only the body. The layer adds the status and all header fields except the content type. The formats of
    /// this crate implement this.
    #[doc(hidden)]
    fn body(&self, refusal: &Refusal<'_>) -> Option<RefusalBody> {
        let _ = refusal;
        None
    }
}

impl<F> ResponseFormat for F
where
    F: Fn(&Refusal<'_>) -> Response<Bytes> + Send + Sync + 'static,
{
    fn respond(&self, refusal: &Refusal<'_>) -> Response<Bytes> {
        self(refusal)
    }
}

/// The argument of [`RateLimitLayer::respond_with`](crate::RateLimitLayer::respond_with): a [`ResponseFormat`] or,
/// with the feature `axum`, a closure that returns anything that implements `IntoResponse`.
///
/// `Kind` only distinguishes these. You never need to write it.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a format of refusals",
    note = "a closure does: `|refusal: &Refusal<'_>| -> http::Response<Bytes> {{ .. }}`",
    note = "with the feature `axum`, it may return anything that implements `IntoResponse`",
    note = "see `tollgate::response` for ready ones, such as `Problem::new()`"
)]
pub trait IntoFormat<Kind> {
    /// Converts it into a format.
    fn into_format(self) -> impl ResponseFormat;
}

/// Marks types that are formats themselves.
#[doc(hidden)]
#[derive(Debug)]
pub struct AsItIs;

impl<F: ResponseFormat> IntoFormat<AsItIs> for F {
    fn into_format(self) -> impl ResponseFormat {
        self
    }
}
