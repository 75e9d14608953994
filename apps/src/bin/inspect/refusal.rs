//! Errors for administrators.

use axum::{
    Json,
    http::{StatusCode, header::WWW_AUTHENTICATE},
    response::{IntoResponse, Response},
};
use serde_json::json;
use tollgate::limiter::LimiterError;

/// An error, for people to read: `{"error": {"code": .., "message": ..}}`.
#[derive(Debug)]
pub(crate) struct Refusal {
    status: StatusCode,
    code: &'static str,
    message: String,
}

impl Refusal {
    pub(crate) fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self {
            status,
            code,
            message: message.into(),
        }
    }

    pub(crate) fn unauthorized() -> Self {
        let message =
            "send `Authorization: Bearer` with the token that the server was started with";
        Self::new(StatusCode::UNAUTHORIZED, "unauthorized", message)
    }

    pub(crate) fn unknown_limit(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "unknown_limit", message)
    }

    pub(crate) fn bad_request(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, code, message)
    }
}

impl From<LimiterError> for Refusal {
    fn from(error: LimiterError) -> Self {
        let message = error.to_string();
        match error {
            LimiterError::UnknownLimit { .. } => Self::unknown_limit(message),
            LimiterError::Backend(_) => {
                let message = format!("{message}: try again when it is back");
                Self::new(
                    StatusCode::SERVICE_UNAVAILABLE,
                    "backend_unavailable",
                    message,
                )
            }
            LimiterError::InvalidId { .. } => Self::bad_request("invalid_id", message),
            _ => Self::bad_request("invalid_request", message),
        }
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let body = Json(json!({"error": {"code": self.code, "message": self.message}}));
        match self.status {
            StatusCode::UNAUTHORIZED => {
                (self.status, [(WWW_AUTHENTICATE, "Bearer")], body).into_response()
            }
            status => (status, body).into_response(),
        }
    }
}
