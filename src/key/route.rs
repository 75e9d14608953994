//! The route that axum has matched, and its parameters.

use std::sync::Arc;

use axum::extract::OriginalUri;
use http::request::Parts;
use percent_encoding::percent_decode_str;

use super::{
    extractor::{IdSource, KeyExtractor},
    missing_id::MissingId,
    value::MAX_LEN,
};
use crate::id::{Id, IdError};

/// The route that axum has matched, as written in the router: `/users/{id}`. Used alone, it gives each route one bucket. In a tuple
/// with another extractor, it gives each client one bucket per route.
///
/// Layers added with `Router::layer` and `Router::route_layer` see it, and layers around the whole router do not. All
/// requests without a known route, such as those to the fallback, share the id `unmatched`.
///
/// ```
/// use tollgate::{ClientIp, Rule, key::MatchedPath};
///
/// let per_route = Rule::new("requests-per-route", (ClientIp::peer(), MatchedPath));
/// # let _ = per_route;
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct MatchedPath;

impl KeyExtractor for MatchedPath {
    fn extract(&self, parts: &Parts) -> Result<Option<Id>, MissingId> {
        // This id differs from every route, because routes begin with a slash.
        Ok(Some(route_of(parts).unwrap_or("unmatched").into()))
    }

    fn source(&self) -> IdSource {
        IdSource::Shared
    }
}

/// A parameter of the route that axum has matched, such as the tenant in `/t/{tenant}/orders`.
///
/// The id is the text that axum's `Path` gives to the handler. `/t/acme` and `/t/%61cme` are one tenant for the handler, and
/// have one bucket. An extractor that splits the path of the URI itself gives them a bucket each, so that a client
/// has a new bucket for each spelling.
///
/// Layers added with `Router::layer` and `Router::route_layer` see the parameters, and layers around the whole router do not. A
/// request whose route has no such parameter, or that no route has matched, is refused with 500, and the reason is logged. Use
/// `Router::route_layer` on routes that have the parameter. Requests without a route are then answered with 404. Parameters that
/// are not UTF-8, or longer than 1024 bytes, are refused with 400. A service behind `Router::nest_service` has no route.
///
/// Clients can write any name into a path. If unknown names reach your handler, limit by address as well.
///
/// ```
/// use axum::{Router, extract::Path, routing::get};
/// use tollgate::{Limit, RateLimitLayer, key::PathParam};
///
/// async fn orders(Path(tenant): Path<String>) -> String {
///     format!("the orders of {tenant}\n")
/// }
///
/// let app: Router = Router::new()
///     .route("/t/{tenant}/orders", get(orders))
///     .route_layer(RateLimitLayer::new(Limit::per_minute(100).burst(10), PathParam::new("tenant")));
/// # let _ = app;
/// ```
#[derive(Clone, Debug)]
pub struct PathParam {
    name: Arc<str>,
}

impl PathParam {
    /// The parameter `name`, which every route must have. It is the text in braces, `tenant` for `/t/{tenant}`.
    ///
    /// # Panics
    ///
    /// If the name is empty or contains a brace or a slash.
    #[must_use]
    #[track_caller]
    pub fn new(name: &str) -> Self {
        assert!(
            !name.is_empty() && !name.contains(['{', '}', '/']),
            "`{name}` is not the name of a path parameter: write `tenant` for `/t/{{tenant}}`"
        );
        Self { name: name.into() }
    }

    fn refused(&self, problem: &str) -> MissingId {
        MissingId::client(format!("the path parameter `{}`{problem}", self.name))
    }
}

impl KeyExtractor for PathParam {
    fn extract(&self, parts: &Parts) -> Result<Option<Id>, MissingId> {
        // A nested router removes its prefix from the URI, so the original one is used.
        let original = parts.extensions.get::<OriginalUri>();
        let path = original.map_or(&parts.uri, |uri| &uri.0).path();
        let value = route_of(parts).and_then(|route| param(route, path, &self.name));
        match value.map(|value| percent_decode_str(value).decode_utf8()) {
            Some(Ok(value)) if value.len() > MAX_LEN => {
                Err(self.refused(" is longer than 1024 bytes"))
            }
            Some(Ok(value)) => Ok(Some((&*value).into())),
            Some(Err(_)) => Err(self.refused(" is not UTF-8")),
            None => Err(MissingId::server(format!(
                "no route with a parameter `{{{}}}` has matched the request: add the layer to such routes with \
                 `Router::route_layer`, or use `Rule::on_missing` if others may come without it",
                self.name
            ))),
        }
    }

    fn invalid(&self, error: &IdError) -> MissingId {
        self.refused(&format!(": {error}"))
    }

    fn source(&self) -> IdSource {
        IdSource::Client
    }
}

/// Returns the route that axum has matched, as written in the router.
pub(crate) fn route_of(request: &Parts) -> Option<&str> {
    let path = request.extensions.get::<axum::extract::MatchedPath>();
    path.map(axum::extract::MatchedPath::as_str)
}

/// Returns the value of a parameter in a path that a route has matched. A nested router can repeat the name of an outer one: its
/// handler sees the inner one, which comes last.
///
/// A parameter ends with its segment, and `{*name}` ends with the path. Axum also keeps the values, but in an extension that cannot
/// be read without copying all extensions.
fn param<'a>(route: &str, path: &'a str, name: &str) -> Option<&'a str> {
    let mut found = None;
    let mut rest = path;
    for part in route.split('/') {
        let (segment, after) = rest.split_once('/').unwrap_or((rest, ""));
        let opened = part.strip_suffix('}').and_then(|part| part.split_once('{'));
        match opened {
            Some((_, of_part)) if of_part.strip_prefix('*') == Some(name) => return Some(rest),
            Some((before, of_part)) if of_part == name => found = segment.strip_prefix(before),
            // A layer between two routers has rewritten the path, so the parameter is not known.
            None if part != segment && !part.contains('{') => return None,
            _ => {}
        }
        rest = after;
    }
    found
}
