//! The client side: a layer that follows the rate limits in servers' responses.
//!
//! [`PaceLayer`] wraps a client: hyper-util's, tonic's channel, or any other tower service over `http`. It reads from
//! each response how many more requests the server accepts. It holds further requests to that server back until there
//! is room again, so a client waits instead of being refused. The first request to a server is sent alone, and the
//! others follow after its response.
//!
//! ```
//! use std::time::Duration;
//! use http_body_util::Full;
//! use hyper_util::{client::legacy::Client, rt::TokioExecutor};
//! use tollgate::pace::PaceLayer;
//! use tower::ServiceBuilder;
//!
//! let client = Client::builder(TokioExecutor::new()).build_http::<Full<bytes::Bytes>>();
//! // No request is held back for longer than ten seconds, and a refused one is sent twice more.
//! let pace = PaceLayer::new().max_wait(Duration::from_secs(10)).retry(2);
//! let client = ServiceBuilder::new().layer(pace).service(client);
//! # let _ = client;
//! ```
//!
//! To stay within a rate that you know in advance, put a [`RateLimitLayer`](crate::RateLimitLayer) with the extractor
//! [`Host`](crate::key::Host) around the client, and give its limit a [line](crate::Limit::max_wait).
//!
//! # What it reads
//!
//! | source | values |
//! |---|---|
//! | any response | `RateLimit` of draft-ietf-httpapi-ratelimit-headers-10: the least `r` of all items and, of those at 0, the longest `t` |
//! | else | `X-RateLimit-Remaining` and `X-RateLimit-Reset`, this in seconds from now or since 1970 (also in milliseconds) |
//! | 429, and 503 with a wait | `retry-after-ms`, else `Retry-After` in seconds or as a date, else the fields above, else one second |
//! | gRPC: `RESOURCE_EXHAUSTED`, and `UNAVAILABLE` with a wait | `RetryInfo` (feature `tonic`), else `grpc-retry-pushback-ms`, else as 429 |
//!
//! Dates and instants since 1970 are read by the server's clock, if the response has a `Date`. Each request counts as
//! one unit of the remaining number. The number in a response from a cache (`Age` above 0) is outdated, and is ignored.
//!
//! gRPC's fields are read from the response's head and from its trailers. A call that is refused before it begins has them in
//! the head, and can be retried. If they come in the trailers, the caller has the response already: further requests are held
//! back, and the call is not retried.
//!
//! # Waiting requests
//!
//! Requests to one server are sent in the order in which they came. A request whose future is dropped leaves the line. One whose
//! future is not polled holds up those behind it, for as long as their maximum. The number of waiting requests is not
//! bounded here: put tower's `ConcurrencyLimit` around the `PaceLayer` for that. Each of them holds the inner service
//! that was polled ready.
//!
//! # Untrusted values
//!
//! Values from a server have a bounded effect: no request is held back for longer than
//! [`max_wait`](PaceLayer::max_wait), and is then sent. Values that cannot be read are ignored. If fields contradict
//! each other, the first one in the table counts. If the items of `RateLimit` contradict each other, or responses that
//! arrive at the same time, the lowest remaining number and the longest wait count.
//!
//! State is kept for each authority of a URI, for up to 1024 of them. Requests without an authority share one state, such as
//! those of a tonic channel, which has one server anyway. If all of the 1024 are in use or ask for a wait, requests to
//! further servers are sent immediately.

mod body;
mod bucket;
mod estimate;
mod field;
mod figures;
mod forecast;
mod grpc;
mod items;
mod layer;
mod origin;
mod origins;
mod reading;
mod resend;
mod retry_after;
mod service;
mod share;
mod steady;
mod windowed;
mod x_ratelimit;

pub use self::{
    body::PacedBody,
    layer::PaceLayer,
    resend::{Cloned, Never, Resend},
    service::Pace,
};
