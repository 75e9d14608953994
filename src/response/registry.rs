//! The container registry's JSON: `{"errors": [{"code", "message", "detail"}]}`.

use bytes::Bytes;
use http::{Response, StatusCode};
use serde::Serialize;

use super::{Denial, Refusal, respond};

const JSON: &str = "application/json";

#[derive(Serialize)]
struct Document<'a> {
    errors: [Error<'a>; 1],
}

#[derive(Serialize)]
struct Error<'a> {
    code: &'a str,
    message: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<Detail<'a>>,
}

#[derive(Serialize)]
struct Detail<'a> {
    limiter: &'a str,
    entity: &'a str,
}

pub(super) fn denied(denial: &Denial<'_>) -> Response<Bytes> {
    let error = Error {
        code: "TOOMANYREQUESTS",
        message: "too many requests",
        detail: Some(Detail {
            limiter: denial.limit,
            entity: denial.id,
        }),
    };
    write(StatusCode::TOO_MANY_REQUESTS, error)
}

pub(super) fn refused(refusal: &Refusal<'_>) -> Response<Bytes> {
    let code = match refusal.status {
        StatusCode::BAD_REQUEST => "BADREQUEST",
        StatusCode::SERVICE_UNAVAILABLE => "UNAVAILABLE",
        _ => "INTERNAL",
    };
    write(
        refusal.status,
        Error {
            code,
            message: refusal.message,
            detail: None,
        },
    )
}

fn write(status: StatusCode, error: Error<'_>) -> Response<Bytes> {
    let body = serde_json::to_vec(&Document { errors: [error] }).expect("text is always JSON");
    respond(status, JSON, body.into())
}
