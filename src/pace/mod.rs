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
//! | any response | `RateLimit-Policy` and `RateLimit` of draft-ietf-httpapi-ratelimit-headers-11, and the [exact figures](crate::guide::responses#exact-figures) of this crate's servers with [`Headers::Exact`](crate::response::Headers::Exact) |
//! | else | `RateLimit` alone: the least `r` of all items and, of those at 0, the longest `t` |
//! | else | `X-RateLimit-Remaining` and `X-RateLimit-Reset`, this in seconds from now or since 1970 (also in milliseconds) |
//! | 429, and 503 with a wait | `retry-after-ms`, else `Retry-After` in seconds or as a date, else the fields above, else one second |
//! | gRPC: `RESOURCE_EXHAUSTED`, and `UNAVAILABLE` with a wait | `RetryInfo` (feature `tonic`), else `grpc-retry-pushback-ms`, else as 429 |
//!
//! Dates and instants since 1970 are read by the server's clock, if the response has a `Date`. Each request counts as
//! one unit of the remaining number, unless the exact figures say otherwise. The number in a response from a cache (`Age` above
//! 0) is outdated, and is ignored.
//!
//! gRPC's fields are read from the response's head and from its trailers. A call that is refused before it begins has them in
//! the head, and can be retried. If they come in the trailers, the caller has the response already: further requests are held
//! back, and the call is not retried.
//!
//! # Pacing
//!
//! With exact figures, the layer follows a server's limits exactly. All other fields have whole seconds, and it follows them to the
//! second.
//!
//! **Exact figures.** The layer keeps a copy of the server's bucket for each policy, on its own clock: it takes each request at the
//! instant at which it was sent, and is corrected by each response. So the clocks of both may differ. A client that asks without a
//! pause gets at least 0.97 of any rate, and no refusal. It is limited by tokio's timer, which has milliseconds: with a burst of 1 and
//! an interval of a few milliseconds, up to one of them is lost for each request. Exact figures count instead of a `Retry-After` in whole
//! seconds, unless it asks for more than they do. At most 16 policies of a server are followed in this way.
//!
//! **Reserve.** While requests wait, one and a half of them stay in the bucket, or those of a second if that is less. Otherwise a client
//! that is always busy would leave nothing to others with the same limit, and would not see them. The reserve also makes up for
//! responses that take different times.
//!
//! **Company.** If units are missing that this client has not taken, or if a request is refused although there should have been
//! room, others share the limit. Then the layer sends at 0.6 of the rate, varied by up to a quarter at random, and adapts: each further
//! refusal multiplies the rate by 0.6, each response that shows half of the quota or more raises it by 5 %, and each that shows nothing left
//! lowers it by 5 % (additive increase and multiplicative decrease, as in TCP). Alone again, it has the full rate back after ten to
//! twenty responses.
//!
//! **Start.** The first request goes alone. As many requests can then be on their way as have passed, and one more. Beyond that they
//! follow each other at the rate of the limit. So several clients that start at the same time find each other before they are refused often.
//!
//! **Whole seconds.** If a bucket of at least 4 units fills within a second, according to `w=1` or `X-RateLimit-Reset`, the layer estimates
//! its rate from the units that come back between two responses. It begins with the quota per second, is never faster than what
//! was seen, and keeps one request in reserve, so a wrong estimate is not refused. If the reserve is used up, or after a refusal, it
//! waits for a second. After a refusal, it begins anew a minute later.
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
//! Exact figures that are out of range are ignored, such as a period of more than ten years. Of each server, at most 16 policies and
//! 6,000 instants are kept for a window. Names of policies are at most 128 bytes long.
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
mod origin;
mod reading;
mod resend;
mod sent;
mod service;
mod share;
mod steady;
mod windowed;
mod x_ratelimit;

pub use self::{
    body::PacedBody,
    resend::{Cloned, Never, Resend},
    service::{Pace, PaceLayer},
};
