//! The end of a request, and charges that depend on it.

use std::sync::Arc;

use http::{Extensions, StatusCode, response::Parts};

use crate::transaction::Mode;

/// The end of a request, for rules that charge by outcome. [`Rule::settle_by`](super::Rule::settle_by) has an example.
///
/// A request ends once, in one of three ways: with a [response](Self::response), with an error of the service
/// ([`failed`](Self::failed)), or [abandoned](Self::is_abandoned), because the client disconnected before there was a
/// response or the service panicked.
#[derive(Clone, Copy, Debug)]
pub struct RequestEnd<'a> {
    pub(crate) request: &'a Extensions,
    pub(crate) outcome: RequestResult<'a>,
}

/// How a request ended.
#[derive(Clone, Copy, Debug)]
pub(crate) enum RequestResult<'a> {
    /// With a response, and the number of bytes of its body that were sent.
    Response(&'a Parts, u64),
    Failed,
    Abandoned,
}

/// The HTTP status for the reason of a gRPC refusal, in the response's extensions. The response itself has the status 200.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RefusalStatus(pub(crate) StatusCode);

impl<'a> RequestEnd<'a> {
    /// The extensions that the request had when it passed the layer: those of outer layers, but not those of inner ones. A counter
    /// behind an [`Arc`] is available here however the request ends.
    #[must_use]
    pub fn request_extensions(&self) -> &'a Extensions {
        self.request
    }

    /// The head of the response, if there was one. A handler can leave values for the closure in its extensions, such
    /// as the number of tokens in an answer.
    #[must_use]
    pub fn response(&self) -> Option<&'a Parts> {
        match self.outcome {
            RequestResult::Response(parts, _) => Some(parts),
            RequestResult::Failed | RequestResult::Abandoned => None,
        }
    }

    /// The HTTP status, if there was a response. If an inner layer refused a gRPC request, this is the status that a
    /// request without gRPC would have got. For all other gRPC responses it is 200: see
    /// [`grpc_status`](Self::grpc_status).
    #[must_use]
    pub fn status(&self) -> Option<StatusCode> {
        let parts = self.response()?;
        let refused = parts.extensions.get::<RefusalStatus>();
        Some(refused.map_or(parts.status, |RefusalStatus(status)| *status))
    }

    /// The gRPC status in the response's head. It is there if the call failed before anything was sent. A stream that fails later
    /// has it in its trailers, which are not read.
    #[must_use]
    pub fn grpc_status(&self) -> Option<i32> {
        let status = self.response()?.headers.get("grpc-status")?;
        status.to_str().ok()?.parse().ok()
    }

    /// Returns whether the service returned an error instead of a response.
    #[must_use]
    pub fn failed(&self) -> bool {
        matches!(self.outcome, RequestResult::Failed)
    }

    /// Returns whether there was neither a response nor an error. If the client leaves after the head of the response, the request
    /// is not abandoned.
    #[must_use]
    pub fn is_abandoned(&self) -> bool {
        matches!(self.outcome, RequestResult::Abandoned)
    }

    /// The number of bytes of the response body that were sent. It is 0 before the end of the body, and if there is no
    /// response. Even then, the request may have caused work.
    #[must_use]
    pub fn sent(&self) -> u64 {
        match self.outcome {
            RequestResult::Response(_, sent) => sent,
            RequestResult::Failed | RequestResult::Abandoned => 0,
        }
    }
}

/// Returns the final cost of a request, from the cost that was decided and the end of the request. `None` leaves the charge
/// unchanged.
type FinalCost = dyn Fn(u32, &RequestEnd<'_>) -> Option<u32> + Send + Sync;

/// A charge that depends on how the request ends.
#[derive(Clone)]
pub(crate) struct OutcomeCharge {
    /// The setter of [`Rule`](super::Rule) that has set it.
    pub(super) setter: &'static str,
    /// The mode in which the request is decided.
    pub(super) mode: Mode,
    /// Whether the charge is settled at the end of the response, not at its head.
    pub(crate) is_by_end: bool,
    /// The closure that returns the final cost.
    pub(crate) final_cost: Arc<FinalCost>,
}
