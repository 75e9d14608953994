//! What requests a rule is for.

use std::{fmt, sync::Arc};

use http::{Method, request::Parts};

use crate::key::Predicate;

/// What requests may be, in one way or another.
#[derive(Clone, Default)]
pub(crate) struct Predicates(Vec<Shared>);

type Shared = Arc<dyn Fn(&Parts) -> bool + Send + Sync>;

impl Predicates {
    pub(crate) fn push(&mut self, predicate: impl Fn(&Parts) -> bool + Send + Sync + 'static) {
        self.0.push(Arc::new(predicate));
    }

    /// Whether any of them is true of a request.
    #[inline]
    pub(crate) fn any(&self, request: &Parts) -> bool {
        self.0.iter().any(|predicate| predicate(request))
    }
}

impl fmt::Debug for Predicates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} closures", self.0.len())
    }
}

/// Says of requests whether they have one of these methods, for [`Rule::only_if`](super::Rule::only_if) and
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
/// To say which are left out is safer than to say which are meant: axum serves `HEAD` by the handlers of `GET`.
pub fn methods(methods: impl IntoIterator<Item = Method>) -> Predicate {
    let methods: Vec<_> = methods.into_iter().collect();
    Box::new(move |parts| methods.contains(&parts.method))
}

/// Says of requests whether they have one of these paths. One that ends in `/*` is all that lies below it, and not
/// itself: `/static/*` is `/static/a` and `/static/a/b`, and neither `/static` nor `/statics`.
///
/// Paths are compared as they are sent, byte for byte, as routers do. Where a router folds them before, or takes a
/// prefix off, the layer sees what it sees at its place in the stack. To leave out what *is not* limited is safe: a client that
/// writes a path in another way is limited.
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
/// If one does not begin with a slash, or is a route: with braces, or an asterisk that is not at the end.
#[track_caller]
pub fn paths<T: Into<String>>(paths: impl IntoIterator<Item = T>) -> Predicate {
    let paths: Vec<String> = paths.into_iter().map(Into::into).collect();
    if let Some(path) = paths.iter().find(|path| !path.starts_with('/')) {
        panic!("the path `{path}` matches no request: begin it with `/`");
    }
    let is_route = |path: &&String| {
        let above = path.strip_suffix("/*").unwrap_or(path);
        above.contains(['{', '*'])
    };
    if let Some(path) = paths.iter().find(is_route) {
        panic!(
            "`{path}` is no path: end it with `/*` for all that lies below, or put the layer on the route by \
             `route_layer`"
        );
    }
    Box::new(move |parts| {
        let mut paths = paths.iter();
        paths.any(|path| lies_at(path, parts.uri.path()))
    })
}

fn lies_at(pattern: &str, path: &str) -> bool {
    match pattern
        .strip_suffix('*')
        .filter(|above| above.ends_with('/'))
    {
        Some(above) => path.len() > above.len() && path.starts_with(above),
        None => path == pattern,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pattern_is_a_path_or_all_below_it() {
        for (pattern, path, lies) in [
            ("/health", "/health", true),
            ("/health", "/health/", false),
            ("/health", "/healthy", false),
            ("/static/*", "/static/a", true),
            ("/static/*", "/static/a/b", true),
            ("/static/*", "/static/", false),
            ("/static/*", "/static", false),
            ("/static/*", "/statics", false),
            ("/*", "/", false),
            ("/*", "/a", true),
        ] {
            assert_eq!(lies_at(pattern, path), lies, "{pattern} {path}");
        }
    }
}
