//! The client side: what is read from responses, and when further requests are sent.

#![cfg(feature = "pace")]
#![allow(clippy::unwrap_used, reason = "a test panics to fail")]

mod grpc;
mod hostile;
mod rates;
#[cfg(feature = "axum")]
mod served;

use std::{
    collections::VecDeque,
    convert::Infallible,
    sync::{Arc, Mutex},
    time::Duration,
};

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::Full;
use tokio::{sync::oneshot, task::JoinSet, time::Instant};
use tollgate::pace::PaceLayer;
use tower::{Layer, Service, ServiceExt, service_fn};

use crate::support::patience::{poll, settle};

const SECOND: Duration = Duration::from_secs(1);
/// 2026-01-01 00:00:00.
const NOW: &str = "Thu, 01 Jan 2026 00:00:00 GMT";

/// A response with these fields, the first of which is the status.
type Script = &'static [(&'static str, &'static str)];

fn response(script: Script) -> Response<Full<Bytes>> {
    let mut response = Response::builder();
    for (name, value) in script {
        response = match *name {
            "status" => response.status(value.parse::<u16>().unwrap()),
            name => response.header(name, *value),
        };
    }
    response.body(Full::default()).unwrap()
}

fn request(host: &str) -> Request<Full<Bytes>> {
    let uri = format!("http://{host}/");
    Request::get(uri).body(Full::default()).unwrap()
}

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

    fn service(
        &self,
    ) -> impl Service<
        Request<Full<Bytes>>,
        Response = Response<Full<Bytes>>,
        Error = Infallible,
        Future: Send,
    > + Clone
    + Send
    + use<> {
        let server = self.clone();
        service_fn(move |_: Request<Full<Bytes>>| {
            let answer = server.answer();
            async { Ok(answer) }
        })
    }

    fn asked(&self) -> Vec<Duration> {
        self.asked.lock().unwrap().clone()
    }
}

/// The answers that a server owes.
type Owed = Arc<Mutex<Vec<oneshot::Sender<Script>>>>;

/// A server that answers each request when it is told to, and the answers that it owes.
fn gated() -> (
    impl Service<
        Request<Full<Bytes>>,
        Response = Response<Full<Bytes>>,
        Error = Infallible,
        Future: Send,
    > + Clone
    + Send
    + use<>,
    Owed,
) {
    let owed = Arc::new(Mutex::new(Vec::new()));
    let queue = Arc::clone(&owed);
    let service = service_fn(move |_: Request<Full<Bytes>>| {
        let (answer, answered) = oneshot::channel::<Script>();
        queue.lock().unwrap().push(answer);
        async { Ok::<_, Infallible>(response(answered.await.unwrap())) }
    });
    (service, owed)
}

/// How long the second request is held back after such a response to the first.
async fn held_after(script: Script, max_wait: Duration) -> Duration {
    let server = Server::new(&[script, &[]]);
    let mut pace = PaceLayer::new().max_wait(max_wait).layer(server.service());
    for _ in 0..2 {
        pace.ready().await.unwrap();
        pace.call(request("a")).await.unwrap();
    }
    let asked = server.asked();
    assert_eq!(asked[0], Duration::ZERO);
    asked[1]
}

#[tokio::test(start_paused = true)]
#[expect(clippy::too_many_lines, reason = "one case after the other")]
async fn each_dialect_holds_further_requests_back_for_as_long_as_it_says() {
    let cases: &[(Script, u64)] = &[
        (&[], 0),
        (&[("ratelimit", "\"l\";r=5;t=9")], 0),
        (&[("ratelimit", "\"l\";r=0;t=9")], 9000),
        (
            &[("ratelimit", "\"a\";r=5, \"b\";r=0;t=3,\"c\";r=0;t=4")],
            4000,
        ),
        (&[("ratelimit", "\"a, \\\";r=1\";r=0;pk=:YQ==:;t=3")], 3000),
        (
            &[("ratelimit", "\"a\";r=1"), ("ratelimit", "b;r=0;t=2")],
            2000,
        ),
        (
            &[("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "7")],
            7000,
        ),
        (
            &[("x-ratelimit-remaining", "1"), ("x-ratelimit-reset", "7")],
            0,
        ),
        (
            &[
                ("date", NOW),
                ("x-ratelimit-remaining", "0"),
                ("x-ratelimit-reset", "1767225605"),
            ],
            5000,
        ),
        (
            &[
                ("date", NOW),
                ("x-ratelimit-remaining", "0"),
                ("x-ratelimit-reset", "1767225600250"),
            ],
            250,
        ),
        (&[("status", "429"), ("retry-after", "3")], 3000),
        (
            &[
                ("status", "429"),
                ("date", NOW),
                ("retry-after", "Thu, 01 Jan 2026 00:00:08 GMT"),
            ],
            8000,
        ),
        (
            &[
                ("status", "429"),
                ("retry-after", "1"),
                ("retry-after-ms", "334"),
            ],
            334,
        ),
        (&[("status", "503"), ("retry-after", "2")], 2000),
        (&[("status", "503")], 0),
        (&[("status", "429")], 1000),
        (&[("status", "429"), ("ratelimit", "\"l\";r=0;t=5")], 5000),
        (&[("status", "200"), ("retry-after", "9")], 0),
        // Fields that contradict each other.
        (
            &[
                ("status", "429"),
                ("retry-after", "1"),
                ("ratelimit", "\"l\";r=0;t=5"),
            ],
            1000,
        ),
        (
            &[("ratelimit", "\"l\";r=0;t=2"), ("retry-after", "9")],
            2000,
        ),
        (
            &[
                ("ratelimit", "\"l\";r=5;t=9"),
                ("x-ratelimit-remaining", "0"),
                ("x-ratelimit-reset", "7"),
            ],
            0,
        ),
        (
            &[
                ("ratelimit", "what"),
                ("x-ratelimit-remaining", "0"),
                ("x-ratelimit-reset", "7"),
            ],
            7000,
        ),
        (
            &[
                ("grpc-status", "8"),
                ("grpc-retry-pushback-ms", "334"),
                ("retry-after", "9"),
            ],
            334,
        ),
        (
            &[("grpc-status", "8"), ("grpc-retry-pushback-ms", "334")],
            334,
        ),
        (
            &[("grpc-status", "14"), ("grpc-retry-pushback-ms", "50")],
            50,
        ),
        (&[("grpc-status", "14")], 0),
        (&[("grpc-status", "8"), ("retry-after", "2")], 2000),
        (&[("grpc-status", "8")], 1000),
        (&[("grpc-status", "8"), ("grpc-retry-pushback-ms", "-1")], 0),
        (
            &[("grpc-status", "0"), ("grpc-retry-pushback-ms", "9000")],
            0,
        ),
        (
            &[("grpc-status", "8"), ("grpc-retry-pushback-ms", "soon")],
            0,
        ),
    ];
    for (script, ms) in cases {
        let held = held_after(script, 60 * SECOND).await;
        assert_eq!(held, Duration::from_millis(*ms), "{script:?}");
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
async fn first_request_goes_alone_and_tells_how_many_may_follow() {
    let server = Server::new(&[
        &[("ratelimit", "\"l\";r=2;t=1")],
        &[("ratelimit", "\"l\";r=1;t=1")],
        &[("ratelimit", "\"l\";r=0;t=3")],
        &[("ratelimit", "\"l\";r=0;t=1")],
        &[],
    ]);
    let asked = flood(PaceLayer::new(), &server, 7).await;
    assert_eq!(asked[..4], [0, 0, 0, 3].map(|secs| SECOND * secs));
    assert_eq!(asked[4..], [4 * SECOND; 3]);
}

#[tokio::test(start_paused = true)]
async fn responses_that_overtake_each_other_let_nobody_through_too_much() {
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
    first.remove(0).send(&[("ratelimit", "\"l\";r=5")]).unwrap();
    let mut five = sent().await;
    assert_eq!(five.len(), 5);
    let left: [Script; 5] = [
        &[("ratelimit", "\"l\";r=0;t=1")],
        &[("ratelimit", "\"l\";r=1")],
        &[("ratelimit", "\"l\";r=2")],
        &[("ratelimit", "\"l\";r=3")],
        &[("ratelimit", "\"l\";r=4")],
    ];
    for script in left {
        five.remove(0).send(script).unwrap();
        assert!(sent().await.is_empty(), "{script:?}");
    }
    tokio::time::advance(SECOND).await;
    assert_eq!(sent().await.len(), 1, "one finds out");
}

#[tokio::test(start_paused = true)]
async fn hosts_are_held_apart() {
    let server = Server::new(&[&[("status", "429"), ("retry-after", "5")], &[]]);
    let layer = PaceLayer::new();
    let [one, other] = [0; 2].map(|_| layer.layer(server.service()));
    one.clone().oneshot(request("a")).await.unwrap();
    other.clone().oneshot(request("b")).await.unwrap();
    assert_eq!(server.began.elapsed(), Duration::ZERO);
    other.oneshot(request("A:80")).await.unwrap();
    assert_eq!(server.began.elapsed(), 5 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn refused_request_is_sent_again_when_there_is_room() {
    const REFUSED: Script = &[("status", "429"), ("retry-after", "2")];
    for (times, answers, status, asked) in [
        (0, 1, StatusCode::TOO_MANY_REQUESTS, &[0][..]),
        (2, 1, StatusCode::OK, &[0, 2]),
        (2, 2, StatusCode::OK, &[0, 2, 4]),
        (2, 3, StatusCode::TOO_MANY_REQUESTS, &[0, 2, 4]),
    ] {
        let mut scripts = vec![REFUSED; answers];
        scripts.push(&[]);
        let server = Server::new(&scripts);
        let pace = PaceLayer::new().retry(times).layer(server.service());
        let answer = pace.oneshot(request("a")).await.unwrap();
        assert_eq!(answer.status(), status);
        let asked: Vec<_> = asked.iter().map(|secs| SECOND * *secs).collect();
        assert_eq!(server.asked(), asked);
    }
    // Not for longer than the maximum, and not where it is in vain.
    let finals: [Script; 2] = [
        &[("status", "429"), ("retry-after", "11")],
        &[("grpc-status", "8"), ("grpc-retry-pushback-ms", "-1")],
    ];
    for script in finals {
        let server = Server::new(&[script]);
        let pace = PaceLayer::new().max_wait(10 * SECOND).retry(5);
        let answer = pace.layer(server.service()).oneshot(request("a")).await;
        assert_eq!(answer.unwrap().headers(), response(script).headers());
        let asked = server.asked().len();
        assert!(asked == 1 || script[1].1 == "11" && asked == 2, "{asked}");
    }
}

#[tokio::test(start_paused = true)]
async fn request_without_a_response_keeps_nobody_waiting() {
    let failures = Arc::new(Mutex::new(2));
    let service = service_fn(move |_: Request<Full<Bytes>>| {
        let mut left = failures.lock().unwrap();
        let fails = *left > 0;
        *left -= i32::from(fails);
        async move {
            match fails {
                true => Err(std::io::Error::other("broken")),
                false => Ok(response(&[])),
            }
        }
    });
    let (began, pace) = (Instant::now(), PaceLayer::new().layer(service));
    let mut all = JoinSet::new();
    for _ in 0..5 {
        all.spawn(pace.clone().oneshot(request("a")));
    }
    let answers = all.join_all().await;
    assert_eq!(answers.iter().filter(|answer| answer.is_ok()).count(), 3);
    // One that is dropped on its way is no different.
    let hangs = service_fn(|_: Request<Full<Bytes>>| {
        std::future::pending::<Result<Response<Full<Bytes>>, Infallible>>()
    });
    let pace = PaceLayer::new().max_wait(2 * SECOND).layer(hangs);
    let mut first = Box::pin(pace.clone().oneshot(request("a")));
    assert!(poll(first.as_mut()).is_pending());
    let mut second = Box::pin(pace.clone().oneshot(request("a")));
    assert!(poll(second.as_mut()).is_pending());
    drop(first);
    assert_eq!(began.elapsed(), Duration::ZERO);
}
