use std::{
    pin::pin,
    sync::Arc,
    task::{Context, Poll, Waker},
};

use axum::extract::{
    FromRequestParts,
    path::RawPathParams,
    rejection::{InvalidUtf8InPathParam, RawPathParamsRejection},
};
use http::{Request, request::Parts};

use super::{
    extracted::{Extracted, MissingId},
    extractor::{IdProperties, KeyExtractor},
    header::HeaderId,
};
use crate::id::IdError;

/// A parameter of the route that axum has matched, such as the tenant in `/t/{tenant}/orders`.
///
/// The id is the text that axum's `Path` gives to the handler. `/t/acme` and `/t/%61cme` are one tenant for the handler, and
/// have one bucket. An extractor that splits the path of the URI itself gives them a bucket each, so that a client
/// has a new bucket for each spelling.
///
/// Layers added with `Router::layer` and `Router::route_layer` see the parameters, and layers around the whole router
/// do not. A request whose route has no such parameter, or that no route has matched, is refused with 500, and the
/// reason is logged. Use `Router::route_layer` on routes that have the parameter, which also leaves a 404 a 404, or
/// [`optional`](Self::optional). Parameters that are not UTF-8, or longer than
/// [`HeaderId::MAX_LEN`], are refused with 400.
///
/// Anybody can write any name into a path. If an unknown name reaches your handler, limit by address as well.
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
    is_optional: bool,
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
        Self {
            name: name.into(),
            is_optional: false,
        }
    }

    /// Skips requests whose route has no such parameter, or that no route has matched. A misspelt name then skips all
    /// requests.
    #[must_use]
    pub fn optional(mut self) -> Self {
        self.is_optional = true;
        self
    }

    fn absent(&self) -> Extracted {
        if self.is_optional {
            return Extracted::Skip;
        }
        Extracted::Missing(MissingId::server(format!(
            "no route with a parameter `{{{}}}` has matched the request: add the layer to such routes with \
             `Router::route_layer`, or use `PathParam::optional`",
            self.name
        )))
    }

    fn invalid(&self, problem: &str) -> Extracted {
        Extracted::Missing(MissingId::client(format!(
            "the path parameter `{}` {problem}",
            self.name
        )))
    }
}

impl KeyExtractor for PathParam {
    fn extract(&self, parts: &Parts) -> Extracted {
        let params = match path_params(parts) {
            Ok(Some(params)) => params,
            Ok(None) => return self.absent(),
            Err(_) => return self.invalid("is not UTF-8"),
        };
        // A nested router can repeat the name of an outer one. Its handler sees the inner one.
        let named = params.iter().filter(|(name, _)| *name == &*self.name);
        match named.last() {
            None => self.absent(),
            Some((_, value)) if value.len() > HeaderId::MAX_LEN => {
                self.invalid(&format!("is longer than {} bytes", HeaderId::MAX_LEN))
            }
            Some((_, value)) => value.into(),
        }
    }

    fn describe(&self) -> IdProperties {
        let name = Arc::clone(&self.name);
        let invalid =
            move |error: &IdError| MissingId::client(format!("path parameter `{name}`: {error}"));
        IdProperties::default().invalid(invalid)
    }
}

/// Returns what axum has decoded, if a route has matched. Axum keeps it in a private extension. Only axum's own extractor
/// reads that, and it takes a head that it may change, so it gets a copy of the extensions.
fn path_params(parts: &Parts) -> Result<Option<RawPathParams>, InvalidUtf8InPathParam> {
    let (mut copy, ()) = Request::new(()).into_parts();
    copy.extensions = parts.extensions.clone();
    let found = pin!(RawPathParams::from_request_parts(&mut copy, &()));
    match found.poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(Ok(params)) => Ok(Some(params)),
        Poll::Ready(Err(RawPathParamsRejection::InvalidUtf8InPathParam(error))) => Err(error),
        Poll::Ready(Err(_)) | Poll::Pending => Ok(None),
    }
}
