//! Passes a call on to the server behind the gateway.

use std::{sync::Arc, time::Duration};

use axum::{
    Extension,
    body::Body,
    extract::{Request, State},
    http::{
        HeaderMap, HeaderName, HeaderValue, StatusCode, Uri,
        header::{
            ACCEPT, ACCEPT_ENCODING, AUTHORIZATION, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE,
            RETRY_AFTER, USER_AGENT,
        },
        uri::Scheme,
    },
    response::Response,
};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use thiserror::Error;
use tokio::time;
use tollgate::layer::Assessment;

use super::{answer, call::Call, refusal::Refusal};

/// The longest that the server may take until its answer begins, and between two parts of it.
pub(crate) const SILENCE: Duration = Duration::from_secs(300);

/// The fields of a request that the server gets.
const ASKED: [HeaderName; 2] = [ACCEPT, USER_AGENT];

/// The fields of an answer that the client gets.
const ANSWERED: [HeaderName; 5] = [
    CONTENT_TYPE,
    CONTENT_ENCODING,
    CACHE_CONTROL,
    RETRY_AFTER,
    HeaderName::from_static("x-request-id"),
];

/// The server behind the gateway.
#[derive(Debug)]
pub(crate) struct Upstream {
    client: Client<HttpConnector, Body>,
    base: String,
    /// `Authorization`, if the server needs one.
    authorization: Option<HeaderValue>,
}

/// The error for an address or a key of the server.
#[derive(Debug, Error)]
pub(crate) enum UpstreamError {
    #[error("`{0}` is no address of a server: write it as `http://127.0.0.1:8000`, without a path")]
    Address(String),
    #[error("UPSTREAM_KEY cannot be sent in a header")]
    Key,
}

impl Upstream {
    pub(crate) fn new(url: &str, key: Option<&str>) -> Result<Self, UpstreamError> {
        let wrong = || UpstreamError::Address(url.to_owned());
        let uri: Uri = url.parse().map_err(|_| wrong())?;
        let authority = uri.authority().map(ToString::to_string);
        let is_base = uri.scheme() == Some(&Scheme::HTTP) && uri.path() == "/";
        let authority = authority.filter(|_| is_base).ok_or_else(wrong)?;
        let authorization = key.map(|key| {
            let mut value = HeaderValue::try_from(format!("Bearer {key}"))?;
            value.set_sensitive(true);
            Ok(value)
        });
        let authorization = authorization.transpose();
        Ok(Self {
            client: Client::builder(TokioExecutor::new()).build_http(),
            base: format!("http://{authority}"),
            authorization: authorization.map_err(|_: http::Error| UpstreamError::Key)?,
        })
    }

    /// The request for the server: with its key, and without the client's.
    fn request(&self, request: Request) -> Result<Request, http::Error> {
        let (head, body) = request.into_parts();
        let uri = format!("{}{}", self.base, head.uri.path());
        let mut ours = Request::builder().method(head.method).uri(uri).body(body)?;
        let headers = ours.headers_mut();
        *headers = kept(&head.headers, &ASKED);
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        if let Some(authorization) = &self.authorization {
            headers.insert(AUTHORIZATION, authorization.clone());
        }
        Ok(ours)
    }
}

pub(crate) async fn forward(
    State(upstream): State<Arc<Upstream>>,
    Extension(call): Extension<Arc<Call>>,
    assessment: Assessment,
    request: Request,
) -> Result<Response, Refusal> {
    let request = upstream.request(request);
    let request = request.map_err(|_| Refusal::internal())?;
    call.meter.send();
    let answered = time::timeout(SILENCE, upstream.client.request(request)).await;
    let (head, body) = match answered {
        Ok(Ok(response)) => response.into_parts(),
        Ok(Err(error)) => {
            tracing::warn!(%error, "the server behind the gateway does not answer");
            call.meter.fail();
            return Err(Refusal::no_answer());
        }
        Err(_) => {
            call.meter.fail();
            return Err(Refusal::late_answer());
        }
    };
    if !head.status.is_success() {
        call.meter.fail();
    }
    // The gateway has not asked for an upgrade, so this is an error of the server.
    if head.status.is_informational() {
        tracing::error!(status = %head.status, "the server behind the gateway does not speak HTTP");
        return Err(Refusal::no_answer());
    }
    // The server has rejected the gateway's own key, which clients cannot change.
    if [StatusCode::UNAUTHORIZED, StatusCode::FORBIDDEN].contains(&head.status) {
        tracing::error!(status = %head.status, "the server behind the gateway refuses its key");
        return Err(Refusal::no_answer());
    }
    let headers = kept(&head.headers, &ANSWERED);
    let mut response = Response::new(answer::metered(&headers, body, call));
    *response.status_mut() = head.status;
    *response.headers_mut() = headers;
    response.extensions_mut().insert(assessment);
    Ok(response)
}

fn kept(headers: &HeaderMap, names: &[HeaderName]) -> HeaderMap {
    let fields = names.iter().filter_map(|name| {
        let value = headers.get(name)?;
        Some((name.clone(), value.clone()))
    });
    fields.collect()
}
