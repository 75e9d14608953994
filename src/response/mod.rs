//! Responses: how refusals look, and which headers show what is left.
//!
//! ```
//! use tollgate::{ClientIp, Limit, RateLimitLayer, response::{Headers, PlainText}};
//!
//! let layer = RateLimitLayer::new(Limit::per_second(10), ClientIp::peer())
//!     .respond_with(PlainText)
//!     .headers(Headers::XRateLimitDelta);
//! # let _ = layer;
//! ```
//!
//! The [guide](crate::guide::responses) lists statuses, formats and fields, for HTTP and gRPC.

mod accept;
#[cfg(feature = "axum")]
mod any_response;
mod decision_responder;
mod denial;
mod extras;
mod format;
mod grpc;
mod head;
mod headers;
mod jitter;
mod message;
mod plain_text;
mod problem;
mod refusal;
mod refusal_body;
mod refusal_id;
mod registry;
mod responder;
mod retry_after;
#[cfg(test)]
mod tests;
mod text;

pub use self::{
    decision_responder::DecisionResponder,
    denial::{CostExceeded, Denial},
    format::{AsItIs, IntoFormat, ResponseFormat},
    grpc::Grpc,
    headers::Headers,
    plain_text::PlainText,
    problem::Problem,
    refusal::{Reason, Refusal},
    refusal_id::{RefusalId, RefusalIdError},
    registry::Registry,
};
pub(crate) use self::{
    extras::Extras,
    headers::{Fields, Policy, Shown},
    responder::Responder,
};
