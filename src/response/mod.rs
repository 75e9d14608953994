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

mod fields;
mod format;
mod grpc;
mod policy;
mod refusal;
mod responder;

pub use self::{
    fields::Headers,
    format::{PlainText, Problem, Registry, ResponseFormat},
    refusal::{Denial, Reason, Refusal},
};
pub(crate) use self::{
    fields::ResponseFields,
    policy::{DecidedCharges, LimitsInForce},
    responder::Responder,
};
