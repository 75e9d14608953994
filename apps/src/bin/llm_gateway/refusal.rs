//! Refusals in the form of the protocol: `{"error": {"message", "type", "param", "code"}}`.

use axum::{
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use serde::Serialize;
use tollgate::{
    Limiter,
    response::{self, Denial, Reason},
};

use super::{headers, plan_limits::Measure};

const INVALID: &str = "invalid_request_error";
const SERVER: &str = "server_error";

/// A refused request. No message repeats what the client has sent.
#[derive(Debug, Serialize)]
pub(crate) struct Refusal {
    #[serde(skip)]
    status: StatusCode,
    message: String,
    #[serde(rename = "type")]
    kind: &'static str,
    param: Option<&'static str>,
    code: Option<&'static str>,
}

impl Refusal {
    pub(crate) fn unknown_key() -> Self {
        let message = "send a valid key: `Authorization: Bearer <key>`";
        Self::new(StatusCode::UNAUTHORIZED, INVALID, message).code("invalid_api_key")
    }

    pub(crate) fn unknown_model() -> Self {
        let message = "there is no such model: `GET /v1/models` lists them";
        let refusal = Self::new(StatusCode::NOT_FOUND, INVALID, message);
        refusal.code("model_not_found").param("model")
    }

    pub(crate) fn body(problem: &str) -> Self {
        Self::new(StatusCode::BAD_REQUEST, INVALID, problem)
    }

    pub(crate) fn field(name: &'static str, problem: &str) -> Self {
        Self::body(&format!("`{name}`: {problem}")).param(name)
    }

    /// A field whose text cannot be read. Only a known name is repeated.
    pub(crate) fn unreadable(name: &str) -> Self {
        let known = ["messages", "prompt", "input", "tools"];
        match known.into_iter().find(|known| *known == name) {
            Some(name) => Self::field(name, "it has the wrong type"),
            None => Self::body("a field cannot be read"),
        }
    }

    pub(crate) fn too_long(most: usize) -> Self {
        let message = format!("the body is longer than {most} bytes");
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, INVALID, &message)
    }

    pub(crate) fn too_slow() -> Self {
        let message = "the body did not arrive in time";
        Self::new(StatusCode::REQUEST_TIMEOUT, INVALID, message)
    }

    pub(crate) fn too_many_bodies() -> Self {
        let message = "this key sends too many requests at the same time";
        Self::new(StatusCode::TOO_MANY_REQUESTS, "calls", message).code("rate_limit_exceeded")
    }

    pub(crate) fn internal() -> Self {
        let message = "the gateway is misconfigured";
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, SERVER, message)
    }

    /// The server behind the gateway has not answered.
    pub(crate) fn no_answer() -> Self {
        let message = "the model cannot be reached";
        Self::new(StatusCode::BAD_GATEWAY, SERVER, message).code("upstream_failed")
    }

    /// The server behind the gateway has not answered in time.
    pub(crate) fn late_answer() -> Self {
        let message = "the model did not answer in time";
        Self::new(StatusCode::GATEWAY_TIMEOUT, SERVER, message).code("upstream_timeout")
    }

    fn new(status: StatusCode, kind: &'static str, message: &str) -> Self {
        Self {
            status,
            message: message.to_owned(),
            kind,
            param: None,
            code: None,
        }
    }

    fn code(self, code: &'static str) -> Self {
        Self {
            code: Some(code),
            ..self
        }
    }

    fn param(self, param: &'static str) -> Self {
        Self {
            param: Some(param),
            ..self
        }
    }

    fn into_bytes(self) -> http::Response<Bytes> {
        #[derive(Serialize)]
        struct Body {
            error: Refusal,
        }
        let status = self.status;
        let body = serde_json::to_vec(&Body { error: self });
        let mut response = http::Response::new(body.unwrap_or_default().into());
        *response.status_mut() = status;
        let headers = response.headers_mut();
        let json = HeaderValue::from_static("application/json");
        headers.insert(header::CONTENT_TYPE, json);
        if status == StatusCode::UNAUTHORIZED {
            let bearer = HeaderValue::from_static("Bearer");
            headers.insert(header::WWW_AUTHENTICATE, bearer);
        }
        response
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        self.into_bytes().map(Into::into)
    }
}

pub(crate) async fn unknown_path() -> Refusal {
    let message = "there is nothing at this path";
    Refusal::new(StatusCode::NOT_FOUND, INVALID, message).code("unknown_url")
}

pub(crate) async fn wrong_method() -> Refusal {
    let message = "this path has another method";
    Refusal::new(StatusCode::METHOD_NOT_ALLOWED, INVALID, message)
}

/// The responses of the rate limiting layer, which adds `Retry-After`.
pub(crate) fn denied(
    limiter: &Limiter,
) -> impl Fn(&response::Refusal<'_>) -> http::Response<Bytes> + Send + Sync + 'static {
    let limiter = limiter.clone();
    move |refusal| {
        let mut response = error(refusal).into_bytes();
        let headers = response.headers_mut();
        for Denial {
            limit,
            id,
            decision,
            ..
        } in refusal.denials()
        {
            headers::add(headers, &limiter.limits(), limit, id.as_ref(), decision);
        }
        if let Some(wait) = refusal.retry_after() {
            let ms = u64::try_from(wait.as_micros().div_ceil(1000)).unwrap_or(u64::MAX);
            headers.insert("retry-after-ms", ms.max(1).into());
        }
        if is_of_month(refusal) {
            headers.insert("x-should-retry", HeaderValue::from_static("false"));
        }
        response
    }
}

/// Returns whether the month's quota refuses the call. Clients are told this first, because calls at once end soon.
fn is_of_month(refusal: &response::Refusal<'_>) -> bool {
    let mut denials = refusal.denials().iter();
    denials.any(|denial| Measure::of(denial.limit) == Some(Measure::Month))
}

fn error(refusal: &response::Refusal<'_>) -> Refusal {
    let new = |kind, message: &str| Refusal::new(refusal.status, kind, message);
    match (&refusal.reason, refusal.denials().first()) {
        (Reason::OverLimit, _) if is_of_month(refusal) => {
            new("insufficient_quota", "this month's tokens are used up").code("insufficient_quota")
        }
        (Reason::OverLimit, Some(denial)) => {
            let measure = Measure::of(denial.limit).map_or("requests", Measure::as_str);
            let message = format!("the limit on {measure} is reached: {}", advice(refusal));
            new(measure, &message).code("rate_limit_exceeded")
        }
        // Clients try again after a 429.
        (Reason::Blocked, _) => {
            Refusal::new(StatusCode::FORBIDDEN, INVALID, "this key is blocked").code("key_blocked")
        }
        (Reason::TooCostly { most }, _) => {
            let message =
                format!("the call may take more than {most} tokens, the most that can pass");
            new("tokens", &message).code("request_too_large")
        }
        (Reason::Unavailable, _) => new(SERVER, "the limits cannot be checked right now"),
        _ => new(SERVER, "the gateway is misconfigured"),
    }
}

fn advice(refusal: &response::Refusal<'_>) -> String {
    match refusal.retry_after_secs() {
        Some(seconds) => format!("retry in {seconds} s"),
        None => "it admits no more calls".into(),
    }
}
