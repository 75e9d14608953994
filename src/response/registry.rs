use std::borrow::Cow;

use bytes::Bytes;
use http::Response;
use serde::Serialize;

use super::{
    format::ResponseFormat,
    refusal::{Reason, Refusal},
    refusal_body::RefusalBody,
    refusal_id::RefusalId,
};

const JSON: &str = "application/json";

/// The container registry's JSON, `{"errors": [{"code", "message", "detail"}]}`, for
/// [`RateLimitLayer::respond_with`](crate::RateLimitLayer::respond_with).
#[derive(Clone, Copy, Debug, Default)]
pub struct Registry;

#[derive(Serialize)]
struct Errors<'a> {
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
    #[serde(skip_serializing_if = "Option::is_none")]
    limiter: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    entity: Option<Cow<'a, str>>,
    #[serde(rename = "refusal-id", skip_serializing_if = "Option::is_none")]
    refusal_id: Option<&'a str>,
}

impl ResponseFormat for Registry {
    fn respond(&self, refusal: &Refusal<'_>) -> Response<Bytes> {
        body(refusal).respond(refusal.status)
    }

    fn body(&self, refusal: &Refusal<'_>) -> Option<RefusalBody> {
        Some(body(refusal))
    }

    fn media_type(&self) -> Option<&'static str> {
        Some(JSON)
    }
}

fn body(refusal: &Refusal<'_>) -> RefusalBody {
    let code = code(&refusal.reason);
    let id = refusal.id().map(RefusalId::text);
    let refusal_id = id.as_deref();
    let error = match refusal.denial() {
        Some(denial) => Error {
            code,
            message: "too many requests",
            detail: Some(Detail {
                limiter: Some(denial.limit),
                entity: denial.client(),
                refusal_id,
            }),
        },
        None => Error {
            code,
            message: &refusal.message(),
            detail: refusal_id.map(|_| Detail {
                limiter: None,
                entity: None,
                refusal_id,
            }),
        },
    };
    let body = serde_json::to_vec(&Errors { errors: [error] });
    let body = body.expect("text is always JSON");
    RefusalBody::new(JSON, body)
}

fn code(reason: &Reason<'_>) -> &'static str {
    match reason {
        Reason::OverLimit(_) | Reason::Blocked(_) => "TOOMANYREQUESTS",
        Reason::TooCostly(_) => "TOOCOSTLY",
        Reason::Listed { .. } => "DENIED",
        Reason::NoId(missing) if missing.challenge().is_some() => "UNAUTHORIZED",
        Reason::NoId(missing) if !missing.is_servers_fault() => "BADREQUEST",
        Reason::Unavailable => "UNAVAILABLE",
        Reason::NoId(_) | Reason::Misconfigured => "INTERNAL",
    }
}
