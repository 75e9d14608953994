//! The header fields of refusals, beside those of their formats.

use std::sync::LazyLock;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Response, header};

use super::{
    headers::{Fields, draft11},
    refusal::{Reason, Refusal},
    refusal_body::RefusalBody,
    text::number,
};

/// The names of the fields that most refusals have, in their order.
const USUAL: [HeaderName; 5] = [
    header::CONTENT_TYPE,
    header::RETRY_AFTER,
    header::CACHE_CONTROL,
    draft11::RATELIMIT_POLICY,
    draft11::RATELIMIT,
];

/// A map with room for the values of these fields. Cloning it costs less than half of adding the fields by name.
static ROOM: LazyLock<Option<HeaderMap>> = LazyLock::new(|| {
    let room: HeaderMap = USUAL.map(|name| (name, NO_STORE)).into_iter().collect();
    // Header maps do not guarantee their order, so check it.
    room.keys().eq(&USUAL).then_some(room)
});

const NO_STORE: HeaderValue = HeaderValue::from_static("no-store");

/// Builds the response of a format that only builds the body.
pub(super) fn with_body(
    body: RefusalBody,
    refusal: &Refusal<'_>,
    fields: Option<Fields>,
) -> Response<Bytes> {
    let room = ROOM.as_ref().filter(|_| refusal.docs().is_none());
    match (room, refusal.retry_after_secs(), fields) {
        (Some(room), Some(secs), Some(Fields::Draft11(fields))) => {
            let mut headers = room.clone();
            let mut values = headers.values_mut();
            let mut set = |new| {
                if let Some(value) = values.next() {
                    *value = new;
                }
            };
            set(body.content_type);
            set(number(secs));
            set(NO_STORE);
            set(fields.policy);
            set(fields.state);
            let mut response = Response::new(body.bytes);
            *response.status_mut() = refusal.status;
            *response.headers_mut() = headers;
            response
        }
        (_, _, fields) => {
            let mut response = body.respond(refusal.status);
            complete(response.headers_mut(), refusal, fields, Convention::Http);
            response
        }
    }
}

/// The conventions for errors that a refusal follows.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Convention {
    Http,
    Grpc,
}

/// Adds the fields that a format has not set, and those of the limits.
pub(super) fn complete(
    headers: &mut HeaderMap,
    refusal: &Refusal<'_>,
    fields: Option<Fields>,
    convention: Convention,
) {
    if let Some(secs) = refusal.retry_after_secs() {
        headers
            .entry(header::RETRY_AFTER)
            .or_insert_with(|| number(secs));
    }
    if convention == Convention::Http {
        if let Reason::NoId(missing) = &refusal.reason
            && let Some(challenge) = missing.challenge()
        {
            headers
                .entry(header::WWW_AUTHENTICATE)
                .or_insert_with(|| challenge.clone());
        }
        if let Some(link) = refusal.docs().and_then(help) {
            headers.entry(header::LINK).or_insert(link);
        }
    }
    headers.entry(header::CACHE_CONTROL).or_insert(NO_STORE);
    if let Some(fields) = fields {
        fields.put_on(headers);
    }
}

/// A link to where clients can read about a limit.
fn help(docs: &str) -> Option<HeaderValue> {
    HeaderValue::try_from(format!("<{docs}>;rel=\"help\"")).ok()
}
