use http::request::Parts;

/// Answers a question about requests, by their heads alone: which ones a rule skips, or a layer denies.
///
/// It runs for each request, so it should neither block nor do much work, and must not panic whatever the request holds.
///
/// A closure is a predicate, if the type of its argument is written:
///
/// ```
/// use http::request::Parts;
/// use tollgate::{ClientIp, Rule};
///
/// let is_internal = |parts: &Parts| parts.headers.contains_key("x-internal");
/// let rule = Rule::new("requests", ClientIp::peer()).skip_if(is_internal);
/// # let _ = rule;
/// ```
///
/// Ready ones are [`paths`](crate::rule::paths), [`methods`](crate::rule::methods) and
/// [`ClientIp::within`](super::ClientIp::within).
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not answer a question about a request",
    note = "a closure does: `|parts: &http::request::Parts| -> bool {{ .. }}`",
    note = "see `tollgate::rule` for ready ones, such as `paths([\"/health\"])`"
)]
pub trait Predicate: Send + Sync + 'static {
    /// Whether it is true of a request with this head.
    fn holds(&self, parts: &Parts) -> bool;
}

impl<F> Predicate for F
where
    F: Fn(&Parts) -> bool + Send + Sync + 'static,
{
    fn holds(&self, parts: &Parts) -> bool {
        self(parts)
    }
}
