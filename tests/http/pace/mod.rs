//! The client side reads fields from responses, and sends further requests when it may.

#![cfg(feature = "pace")]

mod dialects;
mod hostile;
mod requests;
mod simulated;

use std::{
    collections::VecDeque,
    convert::Infallible,
    future::ready,
    sync::{Arc, Mutex},
    time::Duration,
};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use tokio::{sync::oneshot, task::JoinSet, time::Instant};
use tollgate::pace::PaceLayer;
use tower::{Layer, Service, ServiceExt, service_fn, util::BoxCloneSyncService};

use crate::support::patience::settle;

const SECOND: Duration = Duration::from_secs(1);

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// The fields of a response, with ` | ` between them. The first one may be the status.
type Script = &'static str;

fn fields(script: Script) -> impl Iterator<Item = (&'static str, &'static str)> {
    script
        .split(" | ")
        .filter_map(|field| field.split_once(": "))
}

fn response(script: Script) -> Response<Full<Bytes>> {
    let mut response = Response::builder();
    for (name, value) in fields(script) {
        response = match name {
            "status" => response.status(value.parse::<u16>().unwrap()),
            name => response.header(name, value),
        };
    }
    response.body(Full::default()).unwrap()
}

fn request(host: &str) -> Request<Full<Bytes>> {
    let uri = format!("http://{host}/");
    Request::get(uri).body(Full::default()).unwrap()
}

/// The way of a client to a server.
type Way = BoxCloneSyncService<Request<Full<Bytes>>, Response<Full<Bytes>>, Infallible>;

/// A server that answers by scripts, the last one for ever, and notes when it is asked.
#[derive(Clone)]
struct Server {
    scripts: Arc<Mutex<VecDeque<Script>>>,
    began: Instant,
    asked: Arc<Mutex<Vec<Duration>>>,
}

impl Server {
    fn new(scripts: &[Script]) -> Self {
        Self {
            scripts: Arc::new(Mutex::new(scripts.iter().copied().collect())),
            began: Instant::now(),
            asked: Arc::default(),
        }
    }

    fn answer(&self) -> Response<Full<Bytes>> {
        self.asked.lock().unwrap().push(self.began.elapsed());
        let mut scripts = self.scripts.lock().unwrap();
        match scripts.len() {
            1 => response(scripts[0]),
            _ => response(scripts.pop_front().unwrap()),
        }
    }

    fn service(&self) -> Way {
        let server = self.clone();
        Way::new(service_fn(move |_| ready(Ok(server.answer()))))
    }

    fn asked(&self) -> Vec<Duration> {
        self.asked.lock().unwrap().clone()
    }
}

/// The answers that a server owes.
type Owed = Arc<Mutex<Vec<oneshot::Sender<Script>>>>;

/// A server that answers each request on order, and the answers that it owes.
fn gated() -> (Way, Owed) {
    let owed = Arc::new(Mutex::new(Vec::new()));
    let queue = Arc::clone(&owed);
    let service = service_fn(move |_| {
        let (answer, answered) = oneshot::channel::<Script>();
        queue.lock().unwrap().push(answer);
        async { Ok(response(answered.await.unwrap())) }
    });
    (Way::new(service), owed)
}

/// Returns how long the second request is held back after this response to the first.
async fn held_after(script: Script, max_wait: Duration) -> Duration {
    let server = Server::new(&[script, ""]);
    let mut pace = PaceLayer::new().max_wait(max_wait).layer(server.service());
    for _ in 0..2 {
        pace.ready().await.unwrap();
        pace.call(request("a")).await.unwrap();
    }
    let asked = server.asked();
    assert_eq!(asked[0], Duration::ZERO);
    asked[1]
}

/// Fields of a response, with ` | ` between them, and for how many milliseconds they hold the next request back. Without a reset, the
/// average interval counts; 0 seconds are those that were rounded down, and fractions are rounded up. A reset that cannot be read is a
/// second. Of several values, the least remaining and the longest reset count. A remaining number that is
/// no number, or has passed, is ignored.
const HELD: &str = r#"
0 |
0 | ratelimit: "l";r=5;t=9
9000 | ratelimit: "l";r=0;t=9
4000 | ratelimit: "a";r=5, "b";r=0;t=3,"c";r=0;t=4
3000 | ratelimit: "a, \";r=1";r=0;pk=:YQ==:;t=3
2000 | ratelimit: "a";r=1 | ratelimit: b;r=0;t=2
7000 | x-ratelimit-remaining: 0 | x-ratelimit-reset: 7
0 | x-ratelimit-remaining: 1 | x-ratelimit-reset: 7
2000 | x-ratelimit-limit: 10 | x-ratelimit-remaining: 0 | x-ratelimit-reset: 2
6000 | x-rate-limit-remaining: 0 | x-rate-limit-reset: 6
8000 | ratelimit-remaining: 0 | ratelimit-reset: 8
4000 | ratelimit: limit=10, remaining=0, reset=4
4000 | ratelimit: remaining=0,reset=4,limit=10;w=1
0 | ratelimit: limit=10, remaining=1, reset=4
2000 | x-ratelimit-remaining: 0 | x-ratelimit-reset: 1.25
1000 | x-ratelimit-remaining: 0 | x-ratelimit-reset: 1767225605.1 | x-ratelimit-reset-after: 0.4
1000 | ratelimit-remaining: 0 | ratelimit-reset: 0
1000 | ratelimit: "l";r=0;t=0
2000 | status: 429 | retry-after: 1.5
2500 | ratelimit: "l";r=0 | ratelimit-policy: "l";q=4;w=10
0 | ratelimit: "l";r=0 | ratelimit-policy: "l";q=4
5000 | date: Thu, 01 Jan 2026 00:00:00 GMT | ratelimit-remaining: 0 | ratelimit-reset: 1767225605
9000 | date: Thu, 01 Jan 2026 00:00:00 GMT | x-ratelimit-remaining: 0 | x-ratelimit-reset: Thu, 01 Jan 2026 00:00:09 GMT
1000 | date: Thu, 01 Jan 2026 00:00:00 GMT | x-ratelimit-remaining: 0 | x-ratelimit-reset: 1767225600.25
5000 | date: Thu, 01 Jan 2026 00:00:00 GMT | x-ratelimit-remaining: 0 | x-ratelimit-reset: 1767225605
250 | date: Thu, 01 Jan 2026 00:00:00 GMT | x-ratelimit-remaining: 0 | x-ratelimit-reset: 1767225600250
3000 | status: 429 | retry-after: 3
8000 | status: 429 | date: Thu, 01 Jan 2026 00:00:00 GMT | retry-after: Thu, 01 Jan 2026 00:00:08 GMT
334 | status: 429 | retry-after: 1 | retry-after-ms: 334
2000 | status: 503 | retry-after: 2
0 | status: 503
1000 | status: 429
5000 | status: 429 | ratelimit: "l";r=0;t=5
0 | status: 200 | retry-after: 9
0 | status: 503 | retry-after: soon
5000 | status: 503 | ratelimit: "l";r=0;t=5
1000 | status: 429 | retry-after: -5
1000 | status: 429 | retry-after: 1.
1000 | status: 429 | date: yesterday | retry-after: Thu, 01 Jan 2026 00:00:08
1000 | status: 429 | date: Thu, 01 Jan 2026 00:00:00 GMT | retry-after: Wed, 31 Dec 2025 23:59:59 GMT
0 | date: Thu, 01 Jan 2026 00:00:00 GMT | x-ratelimit-remaining: 0 | x-ratelimit-reset: 1767225599
0 | x-ratelimit-remaining: -1 | x-ratelimit-reset: 7
1000 | x-ratelimit-remaining: 0 | x-ratelimit-reset: -7
1000 | x-ratelimit-remaining: 0 | x-ratelimit-reset: soon
0 | x-ratelimit-remaining: 0
1000 | ratelimit: limit=10, remaining=0, reset=soon
0 | ratelimit: limit=10, remaining=0
3000 | x-ratelimit-remaining: 0.0 | x-ratelimit-reset: 3
3000 | x-ratelimit-remaining: 0.9 | x-ratelimit-reset: 3
0 | x-ratelimit-remaining: 1.9 | x-ratelimit-reset: 3
0 | x-ratelimit-remaining: 0.x | x-ratelimit-reset: 3
3000 | x-ratelimit-remaining: 0, 0 | x-ratelimit-reset: 3, 3
9000 | x-ratelimit-remaining: 7, 0 | x-ratelimit-reset: 9, 3
9000 | ratelimit-remaining: 7 | ratelimit-remaining: 0 | ratelimit-reset: 9 | ratelimit-reset: 3
3000 | x-ratelimit-remaining: 0, ? | x-ratelimit-reset: soon, 3
0 | x-ratelimit-remaining: 7, 1 | x-ratelimit-reset: 9, 3
9000 | date: Thu, 01 Jan 2026 00:00:00 GMT | x-ratelimit-remaining: 0, 0 | x-ratelimit-reset: Thu, 01 Jan 2026 00:00:09 GMT | x-ratelimit-reset: 3
3000 | date: Thu, 01 Jan 2026 00:00:00 GMT | x-ratelimit-remaining: 0 | x-ratelimit-reset: 2026-01-01T00:00:03Z
3000 | date: Thu, 01 Jan 2026 00:00:00 GMT | x-ratelimit-remaining: 0 | x-ratelimit-reset: 2026-01-01t02:00:02.000001+02:00
3000 | date: Thu, 01 Jan 2026 00:00:00 GMT | ratelimit-remaining: 0 | ratelimit-reset: 2025-12-31T18:30:03.0-05:30
1000 | date: Thu, 01 Jan 2026 00:00:00 GMT | x-ratelimit-remaining: 0 | x-ratelimit-reset: 2026-01-01T00:00:03
1000 | date: Thu, 01 Jan 2026 00:00:00 GMT | x-ratelimit-remaining: 0 | x-ratelimit-reset: 2026-01-01T00:00:03Z02:00
1000 | date: Thu, 01 Jan 2026 00:00:00 GMT | x-ratelimit-remaining: 0 | x-ratelimit-reset: 2026-01-01T00:00:03+0200
60000 | x-ratelimit-remaining: 0 | x-ratelimit-reset: 6m0s
6000 | x-ratelimit-remaining: 0 | x-ratelimit-reset: 6s
1250 | x-ratelimit-remaining: 0 | x-rate-limit-remaining: 9 | x-ratelimit-reset: 1.25s
1 | x-ratelimit-remaining: 0 | x-ratelimit-reset: 0s
3000 | status: 403 | retry-after: 3 | x-ratelimit-remaining: 14
0 | status: 403 | x-ratelimit-remaining: 14
0 | status: 403 | retry-after: soon
9000 | status: 429 | retry-after: 3 | retry-after: 9
3000 | status: 429 | retry-after: 3, 1
3000 | status: 503 | retry-after: 1 | retry-after: 3
3000 | status: 429 | retry-after-ms: 20 | retry-after-ms: 3000
8000 | status: 429 | date: Thu, 01 Jan 2026 00:00:00 GMT | retry-after: 1 | retry-after: Thu, 01 Jan 2026 00:00:08 GMT
1000 | status: 429 | ratelimit: "l";r=5;t=9
1000 | status: 429 | retry-after: 1 | ratelimit: "l";r=0;t=5
2000 | ratelimit: "l";r=0;t=2 | retry-after: 9
0 | ratelimit: "l";r=5;t=9 | x-ratelimit-remaining: 0 | x-ratelimit-reset: 7
7000 | ratelimit: what | x-ratelimit-remaining: 0 | x-ratelimit-reset: 7
334 | grpc-status: 8 | grpc-retry-pushback-ms: 334 | retry-after: 9
334 | grpc-status: 8 | grpc-retry-pushback-ms: 334
50 | grpc-status: 14 | grpc-retry-pushback-ms: 50
0 | grpc-status: 14
2000 | grpc-status: 8 | retry-after: 2
1000 | grpc-status: 8
0 | grpc-status: 8 | grpc-retry-pushback-ms: -1
0 | grpc-status: 0 | grpc-retry-pushback-ms: 9000
0 | grpc-status: 8 | grpc-retry-pushback-ms: soon
"#;

#[tokio::test(start_paused = true)]
async fn each_dialect_holds_further_requests_back_for_as_long_as_it_says() {
    for line in HELD.trim().lines() {
        let (millis, script) = line.split_once(" |").unwrap();
        let held = held_after(script.trim_start(), 60 * SECOND).await;
        assert_eq!(held, ms(millis.parse().unwrap()), "{line}");
    }
}

/// Sends requests at once, and returns when the server was asked.
async fn flood(pace: PaceLayer, server: &Server, requests: u32) -> Vec<Duration> {
    let service = pace.layer(server.service());
    let mut all = JoinSet::new();
    for _ in 0..requests {
        all.spawn(service.clone().oneshot(request("a")));
    }
    all.join_all().await;
    server.asked()
}

#[tokio::test(start_paused = true)]
async fn first_response_decides_how_many_requests_follow() {
    let server = Server::new(&[
        "ratelimit: \"l\";r=2;t=1",
        "ratelimit: \"l\";r=1;t=1",
        "ratelimit: \"l\";r=0;t=3",
        "ratelimit: \"l\";r=0;t=1",
        "",
    ]);
    let asked = flood(PaceLayer::new(), &server, 7).await;
    assert_eq!(asked[..4], [0, 0, 0, 3].map(|secs| SECOND * secs));
    assert_eq!(asked[4..], [4 * SECOND; 3]);
}

#[tokio::test(start_paused = true)]
async fn responses_out_of_order_admit_no_request_too_much() {
    // Five may follow the first; their responses come in the reverse order.
    let (service, held) = gated();
    let pace = PaceLayer::new().layer(service);
    let mut all = JoinSet::new();
    for _ in 0..20 {
        all.spawn(pace.clone().oneshot(request("a")));
    }
    let sent = async || {
        settle().await;
        std::mem::take(&mut *held.lock().unwrap())
    };
    let mut first = sent().await;
    assert_eq!(first.len(), 1);
    first.remove(0).send("ratelimit: \"l\";r=5").unwrap();
    let mut five = sent().await;
    assert_eq!(five.len(), 5);
    let left: [Script; 5] = [
        "ratelimit: \"l\";r=0;t=1",
        "ratelimit: \"l\";r=1",
        "ratelimit: \"l\";r=2",
        "ratelimit: \"l\";r=3",
        "ratelimit: \"l\";r=4",
    ];
    for script in left {
        five.remove(0).send(script).unwrap();
        assert!(sent().await.is_empty(), "{script:?}");
    }
    tokio::time::advance(SECOND).await;
    assert_eq!(sent().await.len(), 1, "one finds out");
}
