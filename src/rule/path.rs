//! Paths as routers behind the layer may read them.

use std::sync::Arc;

use http::{Uri, request::Parts, uri::PathAndQuery};
use thiserror::Error;

use crate::{key::Predicate, message::debug_is_message};

/// The most levels of nested escapes that are resolved.
const ROUNDS: usize = 4;

/// A condition that holds for requests with one of these paths. A path that ends in `/*` stands for everything below
/// it, but not for itself: `/static/*` matches `/static/a` and `/static/a/b`, but neither `/static` nor `/statics`.
///
/// Paths are compared byte by byte, as axum's router does. The layer sees the path at its place in the stack, for
/// example without the prefix of an outer `nest`.
///
/// A disguised path matches nothing: a path with dot segments (`.`, `..`, `..;x`), empty segments (`//`),
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
pub fn paths<T: Into<String>>(paths: impl IntoIterator<Item = T>) -> Paths {
    match Paths::new(paths) {
        Ok(paths) => paths,
        Err(error) => panic!("{error}"),
    }
}

/// A condition for requests with some paths. Created by [`paths`].
#[derive(Clone, Debug)]
pub struct Paths(Arc<[String]>);

/// The error for a path that matches no request, or that is a pattern of routes, from [`Paths::new`].
#[derive(Clone, PartialEq, Eq, Error)]
#[error(transparent)]
pub struct PathError(PathMistake);

debug_is_message!(PathError);

#[derive(Clone, Debug, PartialEq, Eq, Error)]
enum PathMistake {
    #[error("the path `{0}` matches no request: begin it with `/`")]
    NoSlash(String),
    #[error(
        "`{0}` is a route pattern: end it with `/*` for all that lies below, or put the layer on the route by \
         `route_layer`"
    )]
    Route(String),
    #[error("the path `{path}` matches no request: write it as `{resolved}`")]
    Disguised { path: String, resolved: String },
}

impl Paths {
    /// The condition that [`paths`] creates, for paths that a user of the program writes.
    ///
    /// ```
    /// use tollgate::rule::Paths;
    ///
    /// let paths = Paths::new(["/login", "/static/*"])?;
    /// assert!(paths.cover("/static/a") && paths.cover("/%6cogin"));
    /// assert!(Paths::new(["login"]).is_err());
    /// # Ok::<_, tollgate::rule::PathError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Where [`paths`] panics.
    pub fn new<T: Into<String>>(paths: impl IntoIterator<Item = T>) -> Result<Self, PathError> {
        let paths: Arc<[String]> = paths.into_iter().map(Into::into).collect();
        match paths.iter().find_map(|path| mistake(path)) {
            Some(mistake) => Err(PathError(mistake)),
            None => Ok(Self(paths)),
        }
    }

    /// Returns whether a request with this path meets a rule that applies [only](super::Rule::only_if) to these paths:
    /// whether the path, or the path that a disguised one may be resolved to, is one of them.
    #[must_use]
    pub fn cover(&self, path: &str) -> bool {
        self.hold_for(path) || resolved(path).is_some_and(|path| self.hold_for(&path))
    }

    fn hold_for(&self, path: &str) -> bool {
        self.0.iter().any(|pattern| lies_at(pattern, path))
    }
}

impl Predicate for Paths {
    fn holds(&self, parts: &Parts) -> bool {
        self.hold_for(parts.uri.path())
    }
}

fn mistake(path: &str) -> Option<PathMistake> {
    if !path.starts_with('/') {
        return Some(PathMistake::NoSlash(path.to_owned()));
    }
    let above = path.strip_suffix("/*").unwrap_or(path);
    if above.contains(['{', '*']) {
        return Some(PathMistake::Route(path.to_owned()));
    }
    let resolved = resolved(path)?;
    let path = path.to_owned();
    Some(PathMistake::Disguised { path, resolved })
}

fn lies_at(pattern: &str, path: &str) -> bool {
    match pattern
        .strip_suffix('*')
        .filter(|above| above.ends_with('/'))
    {
        Some(above) => path.len() > above.len() && path.starts_with(above) && is_plain(path),
        None => path == pattern,
    }
}

/// Returns the head with the path that a disguised path may be resolved to.
pub(crate) fn undisguised(request: &Parts) -> Option<Parts> {
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

/// Returns the path that a router may resolve a path to, if it differs: without needless escapes, backslashes, empty
/// and dot segments.
fn resolved(path: &str) -> Option<String> {
    if is_plain(path) {
        return None;
    }
    let mut path = unescaped(path);
    for _ in 1..ROUNDS {
        path = unescaped(&path);
    }
    Some(without_dots(&path))
}

fn is_plain(path: &str) -> bool {
    let mut escapes = path.match_indices('%');
    let mut segments = path.split('/');
    !path.contains('\\')
        && !path.contains("//")
        && !escapes.any(|(at, _)| escaped(&path[at + 1..]).is_some())
        && !segments.any(|segment| matches!(name(segment), "." | ".."))
}

/// Returns a segment without its parameters, because some servers treat `..;x` as `..`.
fn name(segment: &str) -> &str {
    segment.split(';').next().unwrap_or(segment)
}

/// Returns the path without backslashes, with one level of needless escapes and all levels of escaped `%` resolved.
fn unescaped(path: &str) -> String {
    let mut unescaped = String::with_capacity(path.len());
    let mut rest = path;
    while let Some((before, mut after)) = rest.split_once('%') {
        unescaped.push_str(before);
        // An escaped `%` can begin another escape.
        while let Some(next) = after.strip_prefix("25") {
            after = next;
        }
        (unescaped, rest) = match escaped(after) {
            Some(c) => (unescaped + c.encode_utf8(&mut [0; 4]), &after[2..]),
            None => (unescaped + "%", after),
        };
    }
    unescaped.push_str(rest);
    unescaped.replace('\\', "/")
}

/// Returns the character of the escape at the start of the text, after `%`, if it is unreserved (RFC 3986, section 2.3)
/// or has a meaning to routers.
fn escaped(text: &str) -> Option<char> {
    let digits = text.get(..2)?;
    let is_hex = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    let byte = u8::from_str_radix(digits, 16).ok().filter(|_| is_hex)?;
    let is_needless = byte.is_ascii_alphanumeric() || b"-._~/\\;%".contains(&byte);
    is_needless.then_some(byte.into())
}

fn without_dots(path: &str) -> String {
    let mut kept = Vec::new();
    for segment in path.split('/') {
        match name(segment) {
            "." => {}
            ".." => {
                kept.pop();
            }
            _ if segment.is_empty() => {}
            _ => kept.push(segment),
        }
    }
    let last = path.rsplit('/').next().unwrap_or_default();
    let is_folder = matches!(name(last), "" | "." | "..") && !kept.is_empty();
    format!("/{}{}", kept.join("/"), if is_folder { "/" } else { "" })
}

#[cfg(test)]
mod tests {
    use http::Request;
    use proptest::prelude::*;

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
            ("/static/*", "/static/../login", false),
            ("/*", "/", false),
            ("/*", "/a", true),
        ] {
            assert_eq!(lies_at(pattern, path), lies, "{pattern} {path}");
        }
    }

    #[test]
    fn disguise_is_seen_through() {
        for (path, expected) in [
            ("/a/./b", "/a/b"),
            ("/a/../b", "/b"),
            ("/../../b", "/b"),
            ("/a/b/..", "/a/"),
            ("/a/b/.", "/a/b/"),
            ("/a/..", "/"),
            ("/a//b", "/a/b"),
            ("//a", "/a"),
            ("/a\\..\\b", "/b"),
            ("/%2e%2E/b", "/b"),
            ("/a%2f..%5cb", "/b"),
            ("/a/..;x=1/b", "/b"),
            ("/a/..%3bx/b", "/b"),
            ("/a/.;/b;c", "/a/b;c"),
            ("/%6c%6F%67in", "/login"),
            ("/%252e%25252e/b", "/b"),
            ("/%%32%65./b", "/b"),
            ("/100%25", "/100%"),
            ("/a/%2", ""),
            ("/a/%zz%+f", ""),
            ("/a/%C3%A9%20", ""),
            ("/a/.b/c./..d/...", ""),
            ("/a;b/", ""),
            ("/", ""),
            ("", ""),
            ("*", ""),
        ] {
            let expected = Some(expected).filter(|path| !path.is_empty());
            assert_eq!(resolved(path).as_deref(), expected, "{path}");
        }
    }

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

    /// Escapes a character, and then the digits of its escape, so that it takes this many rounds to read.
    fn nested(c: char, levels: usize) -> String {
        match levels {
            0 => c.into(),
            _ => format!("{:02x}", u32::from(c))
                .chars()
                .map(|digit| nested(digit, levels - 1))
                .fold("%".to_owned(), |escape, digit| escape + &digit),
        }
    }

    proptest! {
        #[test]
        fn no_path_is_too_much(
            segments in prop::collection::vec("(%2e|%25|%2f|[.%/;\\\\a2e]){0,6}", 0..6),
            hidden in prop::collection::vec(("[a-z0-9]", 1..=4_usize), 1..8),
        ) {
            let name_of = |(name, _): &(String, usize)| name.clone();
            let escape_of = |(name, levels): &(String, usize)| -> String {
                name.chars().map(|c| nested(c, *levels)).collect()
            };
            let plain: String = hidden.iter().map(name_of).collect();
            let escaped: String = hidden.iter().map(escape_of).collect();
            prop_assert_eq!(resolved(&format!("/{escaped}")), Some(format!("/{plain}")));
            let path = format!("/{}", segments.join("/"));
            if let Some(resolved) = resolved(&path) {
                prop_assert!(resolved.starts_with('/') && resolved.len() <= path.len());
                prop_assert!(!resolved.split('/').any(|segment| matches!(name(segment), "." | "..")));
                prop_assert!(!resolved.contains("//") && !resolved.contains('\\'));
            }
        }
    }
}
