//! Refusals from any type that axum converts into a response.

use std::{
    pin::pin,
    sync::atomic::{AtomicBool, Ordering},
    task::{Context, Poll, Waker},
};

use axum::{body::Body, response::IntoResponse};
use bytes::{Bytes, BytesMut};
use http::Response;
use http_body::Body as _;

use super::{
    format::{IntoFormat, ResponseFormat},
    refusal::Refusal,
};

/// Marks closures that return a type that axum converts into a response.
#[doc(hidden)]
#[derive(Debug)]
pub struct ViaAxum;

impl<F, R> IntoFormat<ViaAxum> for F
where
    F: Fn(&Refusal<'_>) -> R + Send + Sync + 'static,
    R: IntoResponse,
{
    fn into_format(self) -> impl ResponseFormat {
        AnyResponse {
            respond: move |refusal: &Refusal<'_>| self(refusal).into_response(),
            logged: AtomicBool::new(false),
        }
    }
}

struct AnyResponse<F> {
    respond: F,
    logged: AtomicBool,
}

impl<F> ResponseFormat for AnyResponse<F>
where
    F: Fn(&Refusal<'_>) -> Response<Body> + Send + Sync + 'static,
{
    fn respond(&self, refusal: &Refusal<'_>) -> Response<Bytes> {
        let (head, body) = (self.respond)(refusal).into_parts();
        let bytes = whole(body).unwrap_or_else(|| {
            if !self.logged.swap(true, Ordering::Relaxed) {
                tracing::error!(
                    "the body of a refusal is a stream, so it is left out: return text, bytes or JSON"
                );
            }
            Bytes::new()
        });
        Response::from_parts(head, bytes)
    }
}

/// Returns the bytes of a body, if the body is already complete.
fn whole(body: Body) -> Option<Bytes> {
    let mut body = pin!(body);
    let mut context = Context::from_waker(Waker::noop());
    let mut whole = BytesMut::new();
    loop {
        match body.as_mut().poll_frame(&mut context) {
            Poll::Ready(None) => return Some(whole.freeze()),
            Poll::Ready(Some(Ok(frame))) => {
                // A refusal needs no trailers.
                if let Ok(data) = frame.into_data() {
                    whole.extend_from_slice(&data);
                }
            }
            Poll::Ready(Some(Err(_))) | Poll::Pending => return None,
        }
    }
}
