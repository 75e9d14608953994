use bytes::Bytes;
use http::{HeaderMap, Response, request::Parts};

use super::{
    denial::Denial,
    headers::{Fields, Headers, Policy, Shown},
    responder::Responder,
};
use crate::{
    decision::Decision,
    id::Id,
    key::MissingId,
    limiter::{LimitHandle, LimiterError},
};

/// Turns a decision that a handler has made into the response that a layer would have given: the same status, problem
/// document or gRPC status, message, and header fields. [`RateLimitLayer::responder`](crate::RateLimitLayer::responder)
/// returns one with the layer's settings. The default has those of a new layer.
///
/// ```
/// use axum::{body::Body, extract::{Path, State}, response::{IntoResponse, Response}};
/// use http::request::Parts;
/// use tollgate::{limiter::LimitHandle, response::DecisionResponder};
///
/// #[derive(Clone)]
/// struct App { exports: LimitHandle, responder: DecisionResponder }
///
/// async fn export(State(app): State<App>, Path(team): Path<String>, request: Parts) -> Response {
///     let (exports, responder) = (&app.exports, &app.responder);
///     let decision = match exports.spend(&team).await {
///         Ok(decision) => decision,
///         Err(error) => return responder.failed(&request, exports, &error).map(Body::from),
///     };
///     if let Some(refusal) = responder.refusal(&request, exports, &*team, &decision) {
///         return refusal.map(Body::from);
///     }
///     let mut response = "an export".into_response();
///     responder.put_fields(exports, &decision, response.headers_mut());
///     response
/// }
/// # let _ = axum::Router::<App>::new().route("/{team}", axum::routing::get(export));
/// ```
///
/// Inside a layer that writes the fields of [`Headers::Draft11`], its own fields are added to these.
#[derive(Clone, Debug, Default)]
pub struct DecisionResponder {
    responder: Responder,
    headers: Headers,
}

impl DecisionResponder {
    pub(crate) fn new(responder: Responder, headers: Headers) -> Self {
        Self { responder, headers }
    }

    /// Builds the response to a request that a decision of this handle denies; `None` if the decision allows it.
    ///
    /// The response contains the id, unless it is [secret](Id::secret) or the limit has
    /// [secret ids](crate::Limiter::has_secret_ids).
    #[must_use = "this is the response"]
    pub fn refusal(
        &self,
        request: &Parts,
        limit: &LimitHandle,
        id: impl Into<Id>,
        decision: &Decision,
    ) -> Option<Response<Bytes>> {
        if decision.allowed() {
            return None;
        }
        let (name, limits) = (limit.name(), limit.limiter().limits());
        let id: Id = id.into();
        let is_secret = id.is_secret() || limit.limiter().has_secret_ids(name);
        let id = id.secret_if(is_secret);
        let denial = Denial::new(limits.get(name), name, &id, limit.asked_cost(), decision);
        let fields = self.fields(name, decision);
        let denials = [denial];
        Some(self.responder.denied(request, denial, &denials, fields))
    }

    /// Builds the response to a request that could not be decided: 400 if the id is not one in the limit's format, 413 if
    /// the cost could never pass, 503 if the store does not answer, and 500 for mistakes of the server.
    #[must_use = "this is the response"]
    pub fn failed(
        &self,
        request: &Parts,
        limit: &LimitHandle,
        error: &LimiterError,
    ) -> Response<Bytes> {
        match error {
            LimiterError::InvalidId { source, .. } => {
                let missing = MissingId::client(source.without_id());
                self.responder.missing(request, &missing)
            }
            error => {
                let limits = limit.limiter().limits();
                self.responder.failed(request, error, &limits, &[])
            }
        }
    }

    /// Adds the fields that show how much is left, as a layer does for requests that pass.
    pub fn put_fields(&self, limit: &LimitHandle, decision: &Decision, headers: &mut HeaderMap) {
        if let Some(fields) = self.fields(limit.name(), decision) {
            fields.put_on(headers);
        }
    }

    fn fields(&self, limit: &str, decision: &Decision) -> Option<Fields> {
        let policy = Policy::new(limit, true);
        let shown = Shown {
            decision,
            policy: &policy,
        };
        self.headers
            .write(std::iter::once(shown), !decision.allowed())
    }
}
