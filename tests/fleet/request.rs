//! Requests through the layer.

use std::{
    convert::Infallible,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    time::Duration,
};

use bytes::Bytes;
use http::{Request, Response, StatusCode, request::Parts, response::Parts as Head};
use http_body_util::{BodyExt, Empty};
use tokio::time;
use tollgate::{
    Decision, Limiter, RateLimitLayer, Rule, key::HeaderId, layer::Assessment, transaction::Mode,
};
use tower::{Layer, ServiceExt, service_fn};

use crate::{
    caller::{Caller, bucket, decided_at},
    clock::ProcessClock,
    ledger::Bucket,
    limits, link,
    plan::{Ask, Patience, Visit},
    record::{Admission, Owed},
};

/// The layer of a process: a rule for each limit, for requests that name it in a header.
pub(crate) fn layer(limiter: Limiter, limits: usize, max_waiting: usize) -> RateLimitLayer {
    let layer = RateLimitLayer::with_limiter(limiter).max_waiting(max_waiting);
    let layer = layer.extensions(true);
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
    /// When it was called, if it was.
    called_at: Arc<OnceLock<u64>>,
    /// The decisions on the request.
    assessment: Arc<OnceLock<Assessment>>,
    clock: Arc<ProcessClock>,
    /// Whether a settlement failed.
    has_failed: Arc<AtomicBool>,
}

impl Caller {
    /// Sends a request, and records what has become of it.
    pub(crate) async fn visit(self, layer: RateLimitLayer, visit: Visit) {
        let begun = self.clock.world();
        let most = |ask: &Ask| (bucket(ask), visit.most(ask));
        let units: Vec<(Bucket, u32)> = visit.asks.iter().map(most).collect();
        let key = self.record().begin(units.clone());
        let settled: u64 = visit.settles.iter().copied().map(u64::from).sum();
        for ask in &visit.asks {
            *self.record().settled.entry(bucket(ask)).or_default() += settled;
        }
        let handled = Handled {
            clock: Arc::clone(&self.clock),
            ..Handled::default()
        };
        let (head, _) = link::watched(answered(layer, &visit, &handled)).await;
        let called_at = handled.called_at.get().copied();
        let status = head.as_ref().map(|head| head.status);
        let is_known = match (called_at.is_some(), status) {
            (true, Some(_)) => !handled.has_failed.load(SeqCst),
            (false, Some(StatusCode::BAD_REQUEST)) => {
                let asks = visit.asks.iter();
                let units = asks.map(|ask| (bucket(ask), ask.cost)).collect();
                self.record().bad(units, (begun, self.clock.world()));
                true
            }
            (_, status) => status == Some(StatusCode::TOO_MANY_REQUESTS),
        };
        self.record().end(key, is_known);
        if let Some(called_at) = called_at {
            for ask in &visit.asks {
                let (assessment, span) = (handled.assessment.get(), (begun, called_at));
                self.admit_visit(&visit, ask, assessment, span, is_known);
            }
        }
    }

    fn admit_visit(
        &self,
        visit: &Visit,
        ask: &Ask,
        assessment: Option<&Assessment>,
        (begun, called_at): (u64, u64),
        is_known: bool,
    ) {
        let name = limits::name(ask.place);
        let assessed = assessment.and_then(|assessment| assessment.of(&*name));
        let decision = assessed.map(|assessed| &assessed.decision);
        if decision.is_some_and(|decision| !decision.limited()) {
            // Without the store, the limit admits everything.
            return;
        }
        let now = self.clock.world();
        let at = decision.map_or(called_at, |decision| decided_at(decision, begun, called_at));
        // What is charged after a refund is a debit, which others may have gone before.
        let kept = visit.settles.iter().copied().chain([ask.cost]).min();
        let kept = kept.unwrap_or(ask.cost);
        // A line takes nothing back while others wait in it.
        let settled = match (self.setup.limits[ask.place].has_line(), assessed) {
            (true, Some(assessed)) if is_known => assessed.charged().max(kept),
            (true, _) => visit.most(ask),
            (false, _) => visit.settles.last().copied().unwrap_or(ask.cost),
        };
        let is_apart = visit.asks.len() > 1 && self.setup.servers > 1;
        let admission = Admission {
            begun,
            at,
            until: if is_apart { called_at } else { at },
            process: self.process,
            source: decision.map(Decision::source).unwrap_or_default(),
            units: ask.cost,
            refunded: ask.cost - kept,
            refunded_at: now,
            refunding: 0,
            is_debit: ask.mode == Mode::Debit,
            owed: Owed::Perhaps,
        };
        let debit = Admission {
            units: settled - kept,
            refunded: 0,
            is_debit: true,
            ..admission.clone()
        };
        let mut record = self.record();
        let admissions = record.admissions.entry(bucket(ask)).or_default();
        admissions.extend([admission, debit]);
    }
}

impl Visit {
    /// The most that a request is charged at any time.
    fn most(&self, ask: &Ask) -> u32 {
        self.settles.iter().copied().fold(ask.cost, u32::max)
    }
}

/// Sends a request, and receives all of its answer, unless its client leaves.
async fn answered(layer: RateLimitLayer, visit: &Visit, handled: &Handled) -> Option<Head> {
    let serve = |request| serve(request, visit.handling);
    let service = layer.layer(service_fn(serve));
    let answering = service.oneshot(request(visit, handled));
    let answering = async {
        let response = answering.await.unwrap_or_else(|never| match never {});
        let (head, body) = response.into_parts();
        let _ = body.collect().await;
        head
    };
    match visit.patience {
        Patience::Leaves(after) => {
            let answered = time::timeout(Duration::from_micros(after), answering);
            answered.await.ok()
        }
        _ => Some(answering.await),
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
    let _ = handled.called_at.set(handled.clock.world());
    let assessment = extensions.get::<Assessment>().cloned();
    let _ = assessment
        .clone()
        .map(|given| handled.assessment.set(given));
    time::sleep(Duration::from_micros(before)).await;
    let settles = extensions.get::<Settles>().cloned().unwrap_or_default();
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
    Ok(Response::new(Empty::new()))
}
