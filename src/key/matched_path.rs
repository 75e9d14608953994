use http::request::Parts;

use super::{
    extracted::Extracted,
    extractor::{Description, IdSource, KeyExtractor},
};
use crate::id::IdFormat;

/// The route that axum has matched, as it is written in the router: `/users/{id}`. One bucket for each route or, with
/// another extractor, for each client of each route.
///
/// It is known to layers of `Router::layer` and `Router::route_layer`, and not to those around the whole router. Requests
/// of which no route is known, such as those to the fallback, have the id `unmatched`: together they are as one route.
///
/// ```
/// use tollgate::{ClientIp, Rule, key::MatchedPath};
///
/// let per_route = Rule::new("requests-per-route", (ClientIp::peer(), MatchedPath));
/// # let _ = per_route;
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct MatchedPath;

/// No route: those begin with a slash.
const UNMATCHED: &str = "unmatched";

impl KeyExtractor for MatchedPath {
    fn extract(&self, parts: &Parts) -> Extracted {
        let path = parts.extensions.get::<axum::extract::MatchedPath>();
        path.map_or(UNMATCHED, |path| path.as_str()).into()
    }

    fn describe(&self) -> Description {
        Description::new(IdSource::OneForAll).fits(|format| format == IdFormat::Opaque)
    }
}
