//! Errors for callers.

use axum::{
    Json,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use serde_json::json;
use tollgate::{backend::BackendError, limiter::LimiterError};

/// An error, for the caller to read: `{"error": {"code": .., "message": ..}}`.
#[derive(Debug)]
pub(crate) struct Refusal {
    status: StatusCode,
    code: &'static str,
    message: String,
}

impl Refusal {
    /// A request that must be changed before it can be decided.
    pub(crate) fn bad_request(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, code, message)
    }

    pub(crate) fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self {
            status,
            code,
            message: message.into(),
        }
    }
}

impl From<LimiterError> for Refusal {
    fn from(error: LimiterError) -> Self {
        let code = match &error {
            LimiterError::UnknownLimit { .. } => "unknown_limit",
            LimiterError::InvalidId { .. } => "invalid_id",
            LimiterError::CostAboveBurst { .. } | LimiterError::InvalidCost { .. } => {
                "invalid_cost"
            }
            LimiterError::InvalidReceipt { .. } => "invalid_receipt",
            LimiterError::Unsupported { .. } => "invalid_mode",
            LimiterError::DuplicateBucket { .. } => "duplicate_bucket",
            LimiterError::Backend(BackendError::InvalidNow(_)) => "invalid_now",
            _ => {
                let status = StatusCode::SERVICE_UNAVAILABLE;
                return Self::new(status, "backend_unavailable", error.to_string());
            }
        };
        Self::bad_request(code, error.to_string())
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let body = json!({"error": {"code": self.code, "message": self.message}});
        (self.status, Json(body)).into_response()
    }
}
