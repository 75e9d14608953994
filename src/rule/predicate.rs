//! Conditions on requests.

use std::{fmt, sync::Arc};

use http::{Method, request::Parts};

use super::path::undisguised;
use crate::key::Predicate;

/// A list of conditions. It holds if at least one of them holds.
#[derive(Clone, Default)]
pub(crate) struct Predicates(Vec<Arc<dyn Predicate>>);

impl Predicates {
    pub(crate) fn push(&mut self, predicate: Arc<dyn Predicate>) {
        self.0.push(predicate);
    }

    /// Returns whether any condition holds for a request and, if its path is disguised, also for the resolved path.
    #[inline]
    pub(crate) fn any(&self, request: &Parts) -> bool {
        !self.is_empty() && self.holds(request)
    }

    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn holds(&self, request: &Parts) -> bool {
        let mut holding = self.0.iter().filter(|predicate| predicate.holds(request));
        let Some(first) = holding.next() else {
            return false;
        };
        undisguised(request).is_none_or(|resolved| {
            first.holds(&resolved) || holding.any(|predicate| predicate.holds(&resolved))
        })
    }
}

impl fmt::Debug for Predicates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} predicates", self.0.len())
    }
}

/// A condition that holds for requests with one of these methods, for [`Rule::only_if`](super::Rule::only_if) and
/// [`Rule::skip_if`](super::Rule::skip_if).
///
/// ```
/// use http::Method;
/// use tollgate::{ClientIp, Rule, rule::methods};
///
/// let writes = Rule::new("writes", ClientIp::peer()).skip_if(methods([Method::GET, Method::HEAD]));
/// # let _ = writes;
/// ```
///
/// It is safer to list the methods to skip than those to limit: axum serves `HEAD` with the handlers of `GET`.
pub fn methods(methods: impl IntoIterator<Item = Method>) -> Methods {
    Methods(methods.into_iter().collect())
}

/// A condition for requests with some methods. Created by [`methods`].
#[derive(Clone, Debug)]
pub struct Methods(Arc<[Method]>);

impl Predicate for Methods {
    fn holds(&self, parts: &Parts) -> bool {
        self.0.contains(&parts.method)
    }
}

/// The negation of a predicate.
pub(super) struct Not<P>(pub(super) P);

impl<P: Predicate> Predicate for Not<P> {
    fn holds(&self, parts: &Parts) -> bool {
        !self.0.holds(parts)
    }
}
