//! Requests through the layer.

use std::{
    convert::Infallible,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    time::Duration,
};

use bytes::Bytes;
use http::{Request, Response, StatusCode, request::Parts};
use http_body_util::{BodyExt, Empty};
use tokio::time;
use tollgate::{
    Limiter, RateLimitLayer, Rule, key::HeaderId, layer::Assessment, transaction::Mode,
};
use tower::{Layer, ServiceExt, service_fn};

use crate::{
    caller::Caller,
    ledger::Bucket,
    limits,
    plan::{Patience, Visit},
    record::Admission,
};

/// The layer of a process: a rule for each limit, for requests that name it in a header.
pub(crate) fn layer(limiter: Limiter, limits: usize, max_waiting: usize) -> RateLimitLayer {
    let layer = RateLimitLayer::with_limiter(limiter).max_waiting(max_waiting);
    (0..limits).fold(layer, |layer, place| {
        let (uses, costs) = (format!("x-use-{place}"), format!("x-cost-{place}"));
        let cost = move |parts: &Parts| {
            let text = parts
                .headers
                .get(&costs)
                .and_then(|cost| cost.to_str().ok());
            text.and_then(|text| text.parse().ok()).unwrap_or(1)
        };
        let rule = Rule::new(limits::name(place), HeaderId::new(&format!("x-id-{place}")));
        let rule = rule.only_if(move |parts: &Parts| parts.headers.contains_key(&uses));
        layer.rule(rule.cost_by(cost))
    })
}

/// What the service behind the layer has done.
#[derive(Clone, Debug, Default)]
struct Handled {
    /// Whether it was called.
    is_called: Arc<AtomicBool>,
    /// Whether a settlement failed.
    has_failed: Arc<AtomicBool>,
}

impl Caller {
    /// Sends a request, and records what has become of it.
    pub(crate) async fn visit(self, layer: RateLimitLayer, visit: Visit) {
        let units = visit.asks.iter().map(|ask| {
            let settled = visit.settles.iter().max().copied().unwrap_or(0);
            (crate::caller::bucket(ask), ask.cost.max(settled))
        });
        let units: Vec<(Bucket, u32)> = units.collect();
        let key = self.record().begin(units.clone());
        let handled = Handled::default();
        let request = request(&visit, &handled);
        let serve = |request| serve(request, visit.handling);
        let service = layer.layer(service_fn(serve));
        let answering = async {
            let response = service
                .oneshot(request)
                .await
                .unwrap_or_else(|never| match never {});
            let (head, body) = response.into_parts();
            let _ = body.collect().await;
            head
        };
        let head = match visit.patience {
            Patience::Leaves(after) => time::timeout(Duration::from_micros(after), answering)
                .await
                .ok(),
            _ => Some(answering.await),
        };
        let is_called = handled.is_called.load(SeqCst);
        let is_refused = head
            .as_ref()
            .is_some_and(|head| !is_called && head.status == StatusCode::TOO_MANY_REQUESTS);
        let is_served = is_called && head.is_some() && !handled.has_failed.load(SeqCst);
        let is_bad = head
            .as_ref()
            .is_some_and(|head| head.status == StatusCode::BAD_REQUEST);
        if is_bad {
            self.record().bad(units);
        }
        self.record().end(key, is_refused || is_served || is_bad);
        if is_called {
            self.admit_visit(&visit, head.as_ref());
        }
    }

    fn admit_visit(&self, visit: &Visit, head: Option<&http::response::Parts>) {
        let assessment = head.and_then(|head| head.extensions.get::<Assessment>());
        let now = self.clock.world();
        let mut record = self.record();
        for ask in &visit.asks {
            let assessed =
                assessment.and_then(|assessment| assessment.of(limits::name(ask.place).as_str()));
            let decision = assessed.map(|assessed| &assessed.decision);
            let last = visit.settles.last().copied().unwrap_or(ask.cost);
            let most = visit
                .settles
                .iter()
                .copied()
                .max()
                .unwrap_or(0)
                .max(ask.cost);
            // A line takes nothing back while others wait in it.
            let has_line = self.setup.limits[ask.place]
                .versions
                .iter()
                .any(|terms| terms.has_line());
            let settled = if has_line { most } else { last };
            // What is charged after a refund is a debit, which others may have gone before.
            let kept = visit
                .settles
                .iter()
                .copied()
                .min()
                .unwrap_or(ask.cost)
                .min(ask.cost);
            let at = decision.and_then(|decision| decision.decided_at());
            let at = at.map_or(now, |at| {
                at.as_micros().saturating_sub(crate::server::EPOCH).min(now)
            });
            let admission = Admission {
                at,
                process: self.process,
                source: decision
                    .map(|decision| decision.source())
                    .unwrap_or_default(),
                units: ask.cost,
                refunded: ask.cost - kept,
                refunded_at: now,
                is_debit: ask.mode == Mode::Debit,
            };
            let more = settled - kept;
            let debit = Admission {
                units: more,
                refunded: 0,
                is_debit: true,
                ..admission.clone()
            };
            let admissions = record
                .admissions
                .entry(crate::caller::bucket(ask))
                .or_default();
            admissions.push(admission);
            if more > 0 {
                admissions.push(debit);
            }
        }
    }
}

fn request(visit: &Visit, handled: &Handled) -> Request<Empty<Bytes>> {
    let mut request = Request::builder().uri("/");
    for (i, ask) in visit.asks.iter().enumerate() {
        let place = ask.place;
        request = request.header(format!("x-use-{place}"), "1");
        request = request.header(format!("x-cost-{place}"), ask.cost);
        // The last of several has no id.
        if !(visit.is_bad && i + 1 == visit.asks.len()) {
            request = request.header(format!("x-id-{place}"), &ask.id);
        }
    }
    let settles: Settles = visit
        .asks
        .iter()
        .map(|ask| (limits::name(ask.place), visit.settles.clone()))
        .collect();
    let request = request.extension(handled.clone()).extension(settles);
    request.body(Empty::new()).expect("it is valid")
}

/// The costs to settle each limit to, one after the other.
type Settles = Vec<(String, Vec<u32>)>;

/// The service: it takes its time, and settles what the request has cost.
async fn serve(
    request: Request<Empty<Bytes>>,
    (before, after): (u64, u64),
) -> Result<Response<Empty<Bytes>>, Infallible> {
    let extensions = request.extensions();
    let handled = extensions.get::<Handled>().cloned().unwrap_or_default();
    handled.is_called.store(true, SeqCst);
    time::sleep(Duration::from_micros(before)).await;
    let settles = extensions.get::<Settles>().cloned().unwrap_or_default();
    let assessment = extensions.get::<Assessment>().cloned();
    for (name, costs) in settles {
        let assessed = assessment
            .as_ref()
            .and_then(|assessment| assessment.of(name.as_str()));
        let Some(assessed) = assessed else { continue };
        for cost in costs {
            if assessed.settle(cost).await.is_err() {
                handled.has_failed.store(true, SeqCst);
            }
        }
    }
    time::sleep(Duration::from_micros(after)).await;
    let mut response = Response::new(Empty::new());
    if let Some(assessment) = assessment {
        response.extensions_mut().insert(assessment);
    }
    Ok(response)
}
