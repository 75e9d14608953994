//! The time at which a rule charges: before a request, or after its end.

use std::{fmt, sync::Arc};

use http::{Extensions, StatusCode, response::Parts};

use crate::transaction::Mode;

/// The earlier name of [`RequestEnd`].
#[doc(hidden)]
pub type Ending<'a> = RequestEnd<'a>;

/// The end of a request, for rules that charge by outcome. [`Rule::settle_by`](super::Rule::settle_by) has an example.
///
/// A request ends once, in one of three ways: with a [response](Self::response), with an error of the service
/// ([`failed`](Self::failed)), or [abandoned](Self::is_abandoned), because the client disconnected before there was a
/// response or the service panicked.
#[derive(Clone, Copy, Debug)]
pub struct RequestEnd<'a> {
    request: &'a Extensions,
    outcome: EndingKind<'a>,
}

/// The status of a gRPC refusal, in the response's extensions. The response itself has 200.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Refused(pub(crate) StatusCode);

/// The kind of end.
#[derive(Clone, Copy, Debug)]
pub(crate) enum EndingKind<'a> {
    /// A response, the number of bytes that were taken from its body, and whether the body was complete.
    Response(&'a Parts, u64, bool),
    Failed,
    Abandoned,
}

impl<'a> RequestEnd<'a> {
    pub(crate) const fn new(request: &'a Extensions, outcome: EndingKind<'a>) -> Self {
        Self { request, outcome }
    }

    /// The extensions that the request had when it passed the layer: those of outer layers, without later ones. A
    /// counter behind an [`Arc`] is available here however the request ends.
    #[must_use]
    pub fn request_extensions(&self) -> &'a Extensions {
        self.request
    }

    /// The head of the response, if there was one. A handler can leave values for the closure in its extensions, such
    /// as the number of tokens in an answer.
    #[must_use]
    pub fn response(&self) -> Option<&'a Parts> {
        match self.outcome {
            EndingKind::Response(parts, ..) => Some(parts),
            EndingKind::Failed | EndingKind::Abandoned => None,
        }
    }

    /// The HTTP status, if there was a response. If an inner layer refused a gRPC request, this is the status that a
    /// request without gRPC would have got. For all other gRPC responses it is 200: see
    /// [`grpc_status`](Self::grpc_status).
    #[must_use]
    pub fn status(&self) -> Option<StatusCode> {
        let parts = self.response()?;
        let refused = parts.extensions.get::<Refused>();
        Some(refused.map_or(parts.status, |Refused(status)| *status))
    }

    /// The gRPC status in the response's head. It is there if the call failed before anything was sent.
    #[must_use]
    pub fn grpc_status(&self) -> Option<i32> {
        let status = self.response()?.headers.get("grpc-status")?;
        status.to_str().ok()?.parse().ok()
    }

    /// Returns whether the service returned an error instead of a response.
    #[must_use]
    pub fn failed(&self) -> bool {
        matches!(self.outcome, EndingKind::Failed)
    }

    /// Returns whether there was neither a response nor an error.
    #[must_use]
    pub fn is_abandoned(&self) -> bool {
        matches!(self.outcome, EndingKind::Abandoned)
    }

    /// The number of bytes of the response body that were sent. It is 0 before the end of the body, and if there is no
    /// response. Even then, the request may have caused work.
    #[must_use]
    pub fn sent(&self) -> u64 {
        match self.outcome {
            EndingKind::Response(_, sent, _) => sent,
            EndingKind::Failed | EndingKind::Abandoned => 0,
        }
    }

    /// Returns whether the whole response body was sent. A response without a body, such as that to HEAD or a 304, is
    /// complete.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        matches!(self.outcome, EndingKind::Response(_, _, true))
    }
}

type Judge = dyn Fn(&RequestEnd<'_>) -> bool + Send + Sync;
type Price = dyn Fn(&RequestEnd<'_>) -> Option<u32> + Send + Sync;

/// The time at which a rule charges.
#[derive(Clone, Default)]
pub(super) enum Charging {
    /// Before the request goes on.
    #[default]
    Before,
    /// After the response's head, if the closure returns true. The limit is checked before the request.
    After(Arc<Judge>),
    /// Before the request, and refunded after the response's head if the closure returns true.
    GivenBack(Arc<Judge>),
    /// Before the request, and corrected after the response's end to the cost that the closure returns.
    Settled(Arc<Price>),
}

impl Charging {
    /// Returns whether charging is complete before the request proceeds.
    pub(super) fn is_before(&self) -> bool {
        matches!(self, Self::Before)
    }

    /// Returns whether the rule can refund, or charge more than the cost.
    pub(super) fn corrects(&self) -> bool {
        matches!(self, Self::GivenBack(_) | Self::Settled(_))
    }

    /// Returns whether the rule waits for the end of the response's body.
    pub(super) fn is_by_end(&self) -> bool {
        matches!(self, Self::Settled(_))
    }

    /// Returns the mode in which a request is decided.
    pub(super) fn mode(&self, mode: Mode) -> Mode {
        match (self, mode) {
            (Self::After(_), Mode::CheckAndSpend) => Mode::CheckOnly,
            (Self::After(_), Mode::SpendOnly | Mode::Debit) => Mode::Observe,
            _ => mode,
        }
    }

    /// Returns whether the rule only checks before the request.
    pub(super) fn is_after(&self) -> bool {
        matches!(self, Self::After(_))
    }

    /// Returns the final cost, if it differs from the initial one.
    pub(super) fn due(&self, cost: u32, ending: &RequestEnd<'_>) -> Option<u32> {
        match self {
            Self::Before => None,
            Self::After(judge) => judge(ending).then_some(cost),
            Self::GivenBack(judge) => judge(ending).then_some(0),
            Self::Settled(price) => price(ending),
        }
    }
}

impl fmt::Debug for Charging {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Before => "Before",
            Self::After(_) => "After",
            Self::GivenBack(_) => "GivenBack",
            Self::Settled(_) => "Settled",
        })
    }
}
