//! Conditions on requests.

use std::sync::Arc;

use http::{Method, Uri, request::Parts, uri::PathAndQuery};

use super::path::{lies_at, mistake, resolved};

pub(crate) type Condition = dyn Fn(&Parts) -> bool + Send + Sync;

/// A list of conditions. It holds if one of them does.
#[derive(Clone, Default)]
pub(crate) struct Conditions(Vec<Arc<Condition>>);

impl Conditions {
    pub(crate) fn push(&mut self, condition: Arc<Condition>) {
        self.0.push(condition);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns whether a condition holds for a request and, if its path is disguised, also for the path that a router may resolve
    /// it to.
    #[inline]
    pub(crate) fn hold(&self, request: &Parts) -> bool {
        let mut holding = self.0.iter().filter(|condition| condition(request));
        holding.next().is_some_and(|first| {
            undisguised(request)
                .is_none_or(|other| first(&other) || holding.any(|condition| condition(&other)))
        })
    }

    /// Returns whether a condition holds for a request or for the path that a router may resolve its path to.
    pub(crate) fn may_hold(&self, request: &Parts) -> bool {
        let one_holds = |request: &Parts| self.0.iter().any(|condition| condition(request));
        one_holds(request) || undisguised(request).is_some_and(|other| one_holds(&other))
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
pub fn methods(
    methods: impl IntoIterator<Item = Method>,
) -> impl Fn(&Parts) -> bool + Clone + Send + Sync + 'static {
    let methods: Arc<[Method]> = methods.into_iter().collect();
    move |request: &Parts| methods.contains(&request.method)
}

/// A condition that holds for requests with one of these paths. A path that ends in `/*` stands for everything below
/// it, but not for itself: `/static/*` matches `/static/a` and `/static/a/b`, but neither `/static` nor `/statics`.
///
/// Paths are compared byte by byte, as axum's router does. The layer sees the path as the layers outside of it have left it, for
/// example without the prefix of an outer `nest`.
///
/// A disguised path matches nothing: a path with dot segments (`.`, `..`), empty segments (`//`), parameters (`;x`),
/// backslashes, or percent-encoded letters, digits or `-._~/\;%`, in particular `%2e` and `%2f`. So `/static/*` does
/// not exempt `/static/../login`. [`Rule::skip_if`](super::Rule::skip_if), [`Rule::only_if`](super::Rule::only_if)
/// and the layer's lists also evaluate the path that it may be resolved to, so that it cannot avoid a limit either.
/// Upper case and a trailing slash are not disguises: if a router ignores them, list the forms that it accepts, or
/// put the layer on the route.
///
/// ```
/// use tollgate::{ClientIp, Rule, rule::paths};
///
/// let rule = Rule::new("requests", ClientIp::peer()).skip_if(paths(["/health", "/static/*"]));
/// # let _ = rule;
/// ```
///
/// # Panics
///
/// If a path does not start with a slash, is a route (with braces, or with an asterisk before the end), or is
/// disguised.
#[track_caller]
pub fn paths<T: Into<String>>(
    paths: impl IntoIterator<Item = T>,
) -> impl Fn(&Parts) -> bool + Clone + Send + Sync + 'static {
    let paths: Arc<[String]> = paths.into_iter().map(Into::into).collect();
    if let Some(mistake) = paths.iter().find_map(|path| mistake(path)) {
        panic!("{mistake}");
    }
    move |request: &Parts| {
        let path = request.uri.path();
        paths.iter().any(|pattern| lies_at(pattern, path))
    }
}

/// Returns the head with the path that a disguised path may be resolved to.
fn undisguised(request: &Parts) -> Option<Parts> {
    let path = resolved(request.uri.path())?;
    let path_and_query = match request.uri.query() {
        Some(query) => format!("{path}?{query}"),
        None => path,
    };
    let path_and_query = PathAndQuery::try_from(path_and_query);
    let mut uri = request.uri.clone().into_parts();
    uri.path_and_query = Some(path_and_query.unwrap_or(PathAndQuery::from_static("/")));
    let mut request = request.clone();
    request.uri = Uri::from_parts(uri).unwrap_or_default();
    Some(request)
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    #[test]
    fn head_keeps_all_but_its_path() {
        let request = Request::post("http://a:1/x/%2e%2e/b?c=/../d").header("e", "f");
        let (parts, ()) = request.body(()).expect("a test's request").into_parts();
        let resolved = undisguised(&parts).expect("its path is in disguise");
        assert_eq!(resolved.uri, "http://a:1/b?c=/../d");
        assert_eq!(
            (resolved.method, &resolved.headers["e"]),
            (parts.method, &parts.headers["e"])
        );
    }
}
