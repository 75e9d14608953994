//! Errors for the page.

use axum::{
    Json,
    extract::rejection::{JsonRejection, QueryRejection},
    http::StatusCode,
    response::{IntoResponse, Response},
};
use serde_json::{Value, json};

use crate::{
    config::{Config, ConfigError},
    sessions::SessionError,
    simulation::StepError,
};

/// A status, and the reason for people.
#[derive(Debug)]
pub(crate) struct Refusal {
    status: StatusCode,
    error: String,
    /// Describes a configuration that cannot be simulated, so that it can be corrected.
    config: Option<Value>,
}

impl Refusal {
    /// Refuses to simulate a configuration.
    pub(crate) fn of(error: &ConfigError, config: &Config) -> Self {
        Self {
            config: Some(json!(config)),
            ..Self::new(StatusCode::UNPROCESSABLE_ENTITY, error.to_string())
        }
    }

    fn new(status: StatusCode, error: String) -> Self {
        Self {
            status,
            error,
            config: None,
        }
    }
}

impl From<StepError> for Refusal {
    fn from(error: StepError) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, error.to_string())
    }
}

impl From<SessionError> for Refusal {
    fn from(error: SessionError) -> Self {
        let status = match error {
            SessionError::TooMany => StatusCode::SERVICE_UNAVAILABLE,
            SessionError::Unknown => StatusCode::NOT_FOUND,
        };
        Self::new(status, error.to_string())
    }
}

impl From<JsonRejection> for Refusal {
    fn from(rejection: JsonRejection) -> Self {
        Self::new(rejection.status(), rejection.body_text())
    }
}

impl From<QueryRejection> for Refusal {
    fn from(rejection: QueryRejection) -> Self {
        Self::new(rejection.status(), rejection.body_text())
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let body = json!({"error": self.error, "config": self.config});
        (self.status, Json(body)).into_response()
    }
}
