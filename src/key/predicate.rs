use http::request::Parts;

/// A condition on the head of a request. Rules use it to skip requests, and layers use it to exempt or deny them.
///
/// It runs for every request. It should neither block nor do much work, and must not panic, whatever the request
/// contains.
///
/// A closure is a predicate if the type of its argument is written out:
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
    message = "`{Self}` is not a condition on requests",
    note = "a closure does: `|parts: &http::request::Parts| -> bool {{ .. }}`",
    note = "see `tollgate::rule` for ready ones, such as `paths([\"/health\"])`"
)]
pub trait Predicate: Send + Sync + 'static {
    /// Returns whether the condition holds for a request with this head.
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
