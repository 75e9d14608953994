use http::request::Parts;

use super::{
    extracted::Extracted,
    extractor::{IdProperties, IdSource, KeyExtractor},
};
use crate::id::IdFormat;

/// The route that axum has matched, as written in the router: `/users/{id}`. Alone, it gives each route one bucket.
/// In a tuple with another extractor, it gives each client one bucket per route.
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

/// The id for requests without a route. It differs from every route, because routes begin with a slash.
const UNMATCHED: &str = "unmatched";

impl KeyExtractor for MatchedPath {
    fn extract(&self, parts: &Parts) -> Extracted {
        let path = parts.extensions.get::<axum::extract::MatchedPath>();
        path.map_or(UNMATCHED, |path| path.as_str()).into()
    }

    fn describe(&self) -> IdProperties {
        IdProperties::new(IdSource::OneForAll).fits(|format| format == IdFormat::Opaque)
    }
}
