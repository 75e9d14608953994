use axum::extract::FromRequestParts;
use http::{StatusCode, request::Parts};

use super::assessment::Assessment;

const MISSING: &str = "the request has no `Assessment`: call `.extensions(true)` on the `RateLimitLayer`, and put it around the handler";

/// Rejects with 500 if no layer has added an assessment to the request.
impl<S: Sync> FromRequestParts<S> for Assessment {
    type Rejection = (StatusCode, &'static str);

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Self::Rejection> {
        let found = parts.extensions.get().cloned();
        found.ok_or_else(|| {
            tracing::error!(error = %MISSING, "a handler fails");
            (StatusCode::INTERNAL_SERVER_ERROR, MISSING)
        })
    }
}
