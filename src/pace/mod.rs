//! The client side: a layer that follows the rate limits in servers' responses.
//!
//! [`PaceLayer`] wraps a client: hyper-util's, tonic's channel, reqwest through an [adapter](crate::guide::recipes::calling_apis), or
//! any other tower service over `http`. It reads from each response how many more requests the server accepts, and holds further
//! requests to that server back until there is room again. So a client waits instead of being refused.
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
//! To stay within a rate that you know in advance, put a [`RateLimitLayer`](crate::RateLimitLayer) between this layer and the client,
//! with the extractor [`Host`](crate::key::Host), [no headers](crate::response::Headers::None), and a limit that has a
//! [line](crate::Limit::max_wait). There it also counts the requests that this layer sends again.
//!
//! # What it reads
//!
//! The first of these that a response has counts:
//!
//! | fields | of |
//! |---|---|
//! | `RateLimit: "name";r=0;t=30`, `RateLimit-Policy` | draft-ietf-httpapi-ratelimit-headers-08 to -11 |
//! | `RateLimit: limit=20, remaining=0, reset=30` | draft 7 |
//! | `RateLimit-Remaining`, `RateLimit-Reset` | drafts 0 to 6 |
//! | `X-RateLimit-Remaining`, `X-RateLimit-Reset-After` or `X-RateLimit-Reset` | many services |
//! | `X-Rate-Limit-Remaining`, `X-Rate-Limit-Reset` | others |
//!
//! A reset is a number of seconds, a duration such as `6m0s`, or an instant: seconds or milliseconds since 1970, an HTTP date, or one of
//! RFC 3339. The layer compares instants with the response's `Date`, so both clocks may differ. It rounds what remains down and fractions
//! of a second up, reads 0 as a second that was rounded down, and waits one second for a reset that it cannot read. If a field has several
//! values, the least that remains counts, and the longest wait.
//!
//! A refusal is a 429, a 403 or 503 with `Retry-After`, or, in the response's head, gRPC's `RESOURCE_EXHAUSTED` or `UNAVAILABLE` with a wait. Its
//! wait is that of `RetryInfo` (feature `tonic`) or `grpc-retry-pushback-ms`, else of `retry-after-ms` or `Retry-After` in seconds or as
//! a date, else of the fields above, else one second.
//!
//! # Pacing
//!
//! - The first request to a server goes alone. After its response, as many requests can be in flight as the server says remain;
//!   each counts as one. When none remain, further requests wait for the reset. Then one request goes first, and the others follow
//!   after its response.
//! - If `RateLimit` has no `t`, the wait is `w` divided by `q`. Requests to a server whose responses contain no number are not held
//!   back.
//! - Fields have whole seconds, and the layer follows them to the second. So a server whose burst is smaller than what comes back
//!   in a second gives a client [only part of its rate](crate::guide::responses#clients-that-follow-the-fields).
//! - The only client of a limit is never refused if each of its requests costs one unit.
//! - Clients that share a limit do not see each other. Each sends as many requests as remain, so some are refused.
//!
//! # Waiting requests
//!
//! Requests to one server are sent in the order in which they came. A request whose future is dropped leaves the line. A request
//! whose future is not polled holds up those behind it, for at most their maximum wait. The number of waiting requests is not
//! bounded here. To bound it, put tower's `ConcurrencyLimit` around the `PaceLayer`. Each waiting request holds the inner service
//! that was polled ready.
//!
//! # Untrusted values
//!
//! No request is held back for longer than [`max_wait`](PaceLayer::max_wait). After that it is sent. Values that cannot be read are
//! ignored, and so are the numbers in a response from a cache (`Age` above 0). If the items of `RateLimit` contradict each other, or
//! responses that arrive at the same time, the lowest number and the longest wait count.
//!
//! The layer keeps the state of up to 1024 servers, by the authority of the URI. Requests without an authority share one state,
//! such as those of a tonic channel, which has one server. If all 1024 are in use or ask for a wait, requests to further servers
//! are sent immediately.

mod fields;
mod hints;
mod origin;
mod room;
mod service;

pub use self::service::{Pace, PaceLayer};
