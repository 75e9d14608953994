//! A server that gets the traffic of a log: the layer itself, with the log's times as its clock.

use std::{
    collections::BTreeMap,
    convert::Infallible,
    net::SocketAddr,
    pin::pin,
    task::{Context, Poll, Waker},
};

use http::{Request as HttpRequest, Response, StatusCode};
use serde_json::{Value, json};
use tollgate::{
    Limiter, Limits, MemoryBackend, RateLimitLayer,
    clock::{ManualClock, Timestamp},
};
use tower::{Layer, Service, service_fn};

use crate::traffic::{Request, START};

/// What a server did: how often it refused each client, and when it began.
#[derive(Debug, Default)]
pub(crate) struct Refusals {
    pub(crate) requests: u64,
    pub(crate) denied: BTreeMap<String, (u64, i64)>,
}

impl Refusals {
    pub(crate) fn total(&self) -> u64 {
        self.denied.values().map(|(denied, _)| denied).sum()
    }

    /// The object of a limit that `replay` should print.
    pub(crate) fn as_json(&self, clients: usize) -> Value {
        let mut most: Vec<_> = self.denied.iter().collect();
        most.sort_by_key(|(id, (denied, first))| (u64::MAX - denied, *first, (*id).clone()));
        let most = most.into_iter().take(10).map(|(id, (denied, first))| {
            let first = jiff::Timestamp::from_second(START + first)
                .unwrap()
                .to_string();
            json!({"id": id, "denied": denied, "first": first})
        });
        json!({
            "requests": self.requests,
            "clients": clients,
            "denied": self.total(),
            "clients_denied": self.denied.len(),
            "most_denied": most.collect::<Vec<_>>(),
        })
    }
}

/// A limiter with a clock that stands at the start.
pub(crate) fn limiter(limits: Limits) -> (Limiter, ManualClock) {
    let clock = ManualClock::new(Timestamp::from_micros(0));
    let limiter = Limiter::new(limits, MemoryBackend::new()).with_clock(clock.clone());
    (limiter, clock)
}

pub(crate) fn set(clock: &ManualClock, request: &Request) {
    let us = (START + request.at) * 1_000_000;
    clock.set(Timestamp::from_micros(us.cast_unsigned()));
}

/// Sends the requests to a server with this layer, which counts clients by `ClientIp::peer()`.
pub(crate) fn refusals(
    layer: &RateLimitLayer,
    clock: &ManualClock,
    requests: &[Request],
    id: impl Fn(&Request) -> String,
) -> Refusals {
    let inner = service_fn(|_: HttpRequest<()>| async {
        Ok::<_, Infallible>(Response::new(http_body_util::Empty::<bytes::Bytes>::new()))
    });
    let mut service = layer.layer(inner);
    let mut refusals = Refusals::default();
    for request in requests {
        set(clock, request);
        let mut sent = HttpRequest::builder()
            .method(request.method)
            .uri(&*request.path)
            .body(())
            .unwrap();
        sent.extensions_mut()
            .insert(SocketAddr::new(request.ip, 4000));
        let mut context = Context::from_waker(Waker::noop());
        let Poll::Ready(Ok(())) =
            Service::<HttpRequest<()>>::poll_ready(&mut service, &mut context)
        else {
            panic!("it is ready")
        };
        let mut response = pin!(service.call(sent));
        let Poll::Ready(Ok(response)) = response.as_mut().poll(&mut context) else {
            panic!("it answers at once")
        };
        refusals.requests += 1;
        if response.status() == StatusCode::TOO_MANY_REQUESTS {
            let denied = refusals
                .denied
                .entry(id(request))
                .or_insert((0, request.at));
            denied.0 += 1;
        }
    }
    refusals
}
