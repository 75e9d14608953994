use axum::{
    extract::FromRequestParts,
    response::{IntoResponse, Response},
};
use http::{StatusCode, request::Parts};
use thiserror::Error;

use super::assessment::Assessment;
use crate::message::debug_is_message;

impl<S: Sync> FromRequestParts<S> for Assessment {
    type Rejection = MissingAssessment;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, MissingAssessment> {
        let found = parts.extensions.get().cloned();
        found.ok_or_else(|| {
            tracing::error!(error = %MissingAssessment(()), "a handler fails");
            MissingAssessment(())
        })
    }
}

/// The rejection of a handler with an [`Assessment`], if no layer gives it one: 500.
#[derive(Clone, Error)]
#[error(
    "the request has no `Assessment`: call `.extensions(true)` on the `RateLimitLayer`, and put it around the handler"
)]
pub struct MissingAssessment(());

debug_is_message!(MissingAssessment);

impl IntoResponse for MissingAssessment {
    fn into_response(self) -> Response {
        (StatusCode::INTERNAL_SERVER_ERROR, self.to_string()).into_response()
    }
}
