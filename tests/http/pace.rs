//! The client side: what is read from responses, and when further requests are sent.

#![cfg(feature = "pace")]
#![allow(clippy::unwrap_used, reason = "a test panics to fail")]

use std::{
    collections::VecDeque,
    convert::Infallible,
    net::SocketAddr,
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::{Router, routing::get};
use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Empty, Full};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use tokio::{net::TcpListener, task::JoinSet, time::Instant};
use tollgate::{
    ClientIp, Limit, Limiter, Limits, MemoryBackend, RateLimitLayer, Rule,
    pace::{Pace, PaceLayer},
    response::{Headers, Problem, Refusal, ResponseFormat},
};
use tower::{Layer, Service, ServiceBuilder, ServiceExt, service_fn};

use crate::support::patience::{TokioClock, poll, settle};

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

#[cfg(feature = "tonic")]
#[tokio::test(start_paused = true)]
async fn retry_info_is_read_to_the_millisecond_that_sleeps_are_rounded_to() {
    use tonic::{Code, Status};
    use tonic_types::{ErrorDetails, StatusExt};

    let wait = Duration::from_micros(333_334);
    let details = ErrorDetails::with_retry_info(Some(wait));
    let status = Status::with_error_details(Code::ResourceExhausted, "", details);
    let refused = status.into_http::<Full<Bytes>>();
    let (began, first) = (Instant::now(), Arc::new(Mutex::new(Some(refused))));
    let service = service_fn(move |_: Request<Full<Bytes>>| {
        let answer = first.lock().unwrap().take();
        async { Ok::<_, Infallible>(answer.unwrap_or_else(|| response(&[]))) }
    });
    let pace = PaceLayer::new().layer(service);
    for _ in 0..2 {
        pace.clone().oneshot(request("a")).await.unwrap();
    }
    let held = began.elapsed();
    assert!(
        wait <= held && held <= wait + Duration::from_millis(1),
        "{held:?}"
    );
}

#[tokio::test(start_paused = true)]
#[expect(clippy::too_many_lines, reason = "one case after the other")]
async fn hostile_servers_hold_a_request_back_for_the_maximum_at_most() {
    let scripts: &[Script] = &[
        &[
            ("status", "429"),
            ("retry-after", "99999999999999999999999999"),
        ],
        &[("status", "429"), ("retry-after", "18446744073709551615")],
        &[
            ("status", "429"),
            ("retry-after", "Fri, 31 Dec 9999 23:59:59 GMT"),
        ],
        &[
            ("status", "429"),
            ("retry-after-ms", "18446744073709551615"),
        ],
        &[("ratelimit", "\"l\";r=0;t=999999999999999")],
        &[
            ("x-ratelimit-remaining", "0"),
            ("x-ratelimit-reset", "99999999999999999"),
        ],
        &[
            ("x-ratelimit-remaining", "0"),
            ("x-ratelimit-reset", "999999999"),
        ],
        &[
            ("grpc-status", "8"),
            ("grpc-retry-pushback-ms", "2147483647"),
        ],
        // They contradict themselves.
        &[
            ("status", "429"),
            ("retry-after", "86400"),
            ("ratelimit", "\"l\";r=5;t=0"),
        ],
        &[
            ("ratelimit", "\"l\";r=0;t=86400"),
            ("x-ratelimit-remaining", "100"),
            ("x-ratelimit-reset", "0"),
        ],
    ];
    for script in scripts {
        assert_eq!(
            held_after(script, 2 * SECOND).await,
            2 * SECOND,
            "{script:?}"
        );
        let server = Server::new(&[script]);
        let pace = PaceLayer::new().max_wait(2 * SECOND).retry(3);
        let pace = pace.layer(server.service());
        // Ten requests at once, each of which is answered so.
        let mut all = JoinSet::new();
        for _ in 0..10 {
            let sent = pace.clone().oneshot(request("a"));
            all.spawn(sent);
        }
        all.join_all().await;
        let longest = server.began.elapsed();
        assert!(longest <= 2 * SECOND, "{script:?}: {longest:?}");
    }
}

#[tokio::test(start_paused = true)]
#[expect(clippy::too_many_lines, reason = "one case after the other")]
async fn garbage_is_ignored() {
    let values = [
        "",
        " ",
        ",",
        ";",
        "=",
        "\"",
        "\"\\",
        "\"l\"",
        "\"l\";r",
        "\"l\";r=",
        "\"l\";r=-1;t=9",
        "\"l\";r=0.5;t=9",
        "\"l\";r=0;t=9,",
        "\"l\";r=0;t=9;",
        "\"l\" r=0;t=9",
        "limit=1;r=0",
        "\"l\";r=0;t=soon",
        "10;r=0\";t=9",
        "\"l\";r=0;t=9 \"m\";r=1",
        "\u{7f}",
        "r=0",
        "((((",
    ];
    for value in values {
        let Ok(value) = http::HeaderValue::from_str(value) else {
            continue;
        };
        let service = service_fn(move |_: Request<Full<Bytes>>| {
            let mut answer = response(&[]);
            let fields = [
                "ratelimit",
                "x-ratelimit-remaining",
                "x-ratelimit-reset",
                "retry-after",
                "retry-after-ms",
                "date",
                "grpc-status",
                "grpc-retry-pushback-ms",
            ];
            for field in fields {
                answer.headers_mut().insert(field, value.clone());
            }
            async { Ok::<_, Infallible>(answer) }
        });
        let (began, pace) = (Instant::now(), PaceLayer::new().layer(service));
        for _ in 0..3 {
            pace.clone().oneshot(request("a")).await.unwrap();
        }
        assert_eq!(began.elapsed(), Duration::ZERO);
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
    let held = Arc::new(Mutex::new(Vec::new()));
    let queue = Arc::clone(&held);
    let service = service_fn(move |_: Request<Full<Bytes>>| {
        let (answer, answered) = tokio::sync::oneshot::channel::<Script>();
        queue.lock().unwrap().push(answer);
        async { Ok::<_, Infallible>(response(answered.await.unwrap())) }
    });
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

/// A limit behind a real server, with a clock that stands still until everybody waits.
async fn serve(limit: Limit, headers: Headers) -> SocketAddr {
    let limits = Limits::builder().limit("requests", limit).build().unwrap();
    let limiter = Limiter::new(limits, MemoryBackend::new());
    let layer = RateLimitLayer::with_limiter(limiter)
        .rule(Rule::new("requests", ClientIp::peer()))
        .headers(headers)
        .respond_with(|refusal: &Refusal<'_>| {
            let mut response = Problem::new().respond(refusal);
            if let Some(wait) = refusal.retry_after() {
                let ms = u64::try_from(wait.as_micros().div_ceil(1000)).unwrap();
                response.headers_mut().insert("retry-after-ms", ms.into());
            }
            response
        });
    let app = Router::new().route("/", get(|| async {})).layer(layer);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let app = app.into_make_service_with_connect_info::<SocketAddr>();
    tokio::spawn(async move { axum::serve(listener, app).await });
    address
}

fn client(pace: PaceLayer) -> Pace<Client<HttpConnector, Empty<Bytes>>> {
    let client = Client::builder(TokioExecutor::new()).build_http();
    ServiceBuilder::new().layer(pace).service(client)
}

async fn statuses(
    client: &Pace<Client<HttpConnector, Empty<Bytes>>>,
    address: SocketAddr,
    requests: usize,
) -> Vec<StatusCode> {
    let mut all = JoinSet::new();
    for _ in 0..requests {
        let uri = format!("http://{address}/");
        let request = Request::get(uri).body(Empty::new()).unwrap();
        let sent = client.clone().oneshot(request);
        all.spawn(async move {
            let response = sent.await.unwrap();
            let status = response.status();
            response.into_body().collect().await.unwrap();
            status
        });
    }
    all.join_all().await
}

#[tokio::test]
async fn client_of_a_real_server_is_never_refused_twice() {
    let dialects = [
        Headers::Draft10,
        Headers::XRateLimitEpoch,
        Headers::XRateLimitDelta,
        Headers::None,
    ];
    for headers in dialects {
        let address = serve(Limit::per_second(20), headers).await;
        let statuses = statuses(&client(PaceLayer::new()), address, 25).await;
        let refused = statuses.iter().filter(|status| **status != StatusCode::OK);
        let most = match headers {
            // It says nothing before it refuses, to many at once.
            Headers::None => 25,
            _ => 1,
        };
        assert!(refused.count() <= most, "{headers:?}: {statuses:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn obedient_client_of_three_per_second_gets_nearly_all_of_its_rate() {
    // The layer and the client in one process, on one clock: what is measured is what the fields cost.
    let limits = Limits::builder().limit("requests", Limit::per_second(3));
    let limiter = Limiter::new(limits.build().unwrap(), MemoryBackend::new());
    let limiter = limiter.with_clock(TokioClock::start());
    let layer =
        RateLimitLayer::with_limiter(limiter).rule(Rule::new("requests", tollgate::key::Everyone));
    let server = layer.layer(service_fn(async |_: Request<Full<Bytes>>| {
        Ok::<_, Infallible>(response(&[]))
    }));
    let pace = PaceLayer::new().layer(server);
    let (began, mut refused) = (Instant::now(), 0);
    for _ in 0..303 {
        let answer = pace.clone().oneshot(request("a")).await.unwrap();
        refused += u32::from(answer.status() != StatusCode::OK);
    }
    assert_eq!(refused, 0);
    let least = Duration::from_secs(100).as_secs_f64();
    let rate = least / began.elapsed().as_secs_f64();
    assert!(rate >= 0.97, "{rate}");
}
