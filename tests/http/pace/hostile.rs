//! Servers that would hold a client back for ever, and servers that write nonsense.

use std::{
    convert::Infallible,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderValue, Request, Response, StatusCode};
use http_body_util::Full;
use tokio::{task::JoinSet, time::Instant};
use tollgate::{pace::PaceLayer, testing::random::Random};
use tower::{Layer, ServiceExt, service_fn};

use super::{SECOND, Script, Server, held_after, request};
use crate::support::scale::scaled;

/// The fields of a response that are read.
const FIELDS: [&str; 15] = [
    "ratelimit-policy",
    "x-ratelimit-limit",
    "ratelimit",
    "x-ratelimit-remaining",
    "x-ratelimit-reset",
    "x-ratelimit-reset-after",
    "ratelimit-remaining",
    "ratelimit-reset",
    "x-rate-limit-remaining",
    "retry-after",
    "retry-after-ms",
    "date",
    "age",
    "grpc-status",
    "grpc-retry-pushback-ms",
];

#[tokio::test(start_paused = true)]
async fn hostile_servers_hold_a_request_back_for_the_maximum_at_most() {
    let scripts: &[Script] = &[
        "status: 429 | retry-after: 99999999999999999999999999",
        "status: 429 | retry-after: 18446744073709551615",
        "status: 429 | retry-after: Fri, 31 Dec 9999 23:59:59 GMT",
        "status: 429 | retry-after-ms: 18446744073709551615",
        "ratelimit: \"l\";r=0;t=999999999999999",
        "x-ratelimit-remaining: 0 | x-ratelimit-reset: 99999999999999999",
        "x-ratelimit-remaining: 0 | x-ratelimit-reset: 999999999",
        "x-ratelimit-remaining: 0 | x-ratelimit-reset: 9999-12-31T23:59:59-23:59",
        "x-ratelimit-remaining: 0 | x-ratelimit-reset: 5000000000000h",
        "grpc-status: 8 | grpc-retry-pushback-ms: 2147483647",
        // They contradict themselves.
        "status: 429 | retry-after: 86400 | ratelimit: \"l\";r=5;t=0",
        "ratelimit: \"l\";r=0;t=86400 | x-ratelimit-remaining: 100 | x-ratelimit-reset: 0",
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
        // Ten requests at once. Each is answered so.
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
async fn maximum_beyond_all_instants_is_a_year() {
    const FOR_EVER: Script = "status: 429 | retry-after: 18446744073709551615";
    let year = 365 * 24 * 3600 * SECOND;
    assert_eq!(held_after(FOR_EVER, Duration::MAX).await, year);
    assert_eq!(held_after(FOR_EVER, Duration::ZERO).await, Duration::ZERO);
    let server = Server::new(&[FOR_EVER, ""]);
    let pace = PaceLayer::new().max_wait(Duration::MAX).retry(1);
    let answer = pace.layer(server.service()).oneshot(request("a")).await;
    assert_eq!(answer.unwrap().status(), 200);
    assert_eq!(server.asked(), [Duration::ZERO, year]);
}

#[tokio::test(start_paused = true)]
async fn refusal_that_asks_for_no_wait_is_retried_a_second_later() {
    let refusals: [Script; 6] = [
        "status: 429 | retry-after: 0",
        "status: 429 | retry-after-ms: 0",
        "status: 429 | retry-after: Fri, 31 Dec 1999 23:59:59 GMT",
        "status: 503 | retry-after: Fri, 31 Dec 1999 23:59:59 GMT",
        "status: 429 | ratelimit: \"l\";r=0;t=0",
        "grpc-status: 8 | grpc-retry-pushback-ms: 0",
    ];
    for refusal in refusals {
        let server = Server::new(&[refusal]);
        let pace = PaceLayer::new().retry(7).layer(server.service());
        let began = Instant::now();
        pace.oneshot(request("a")).await.unwrap();
        let asked: Vec<_> = server.asked();
        let expected: Vec<_> = (0..8).map(Duration::from_secs).collect();
        assert_eq!(asked, expected, "{refusal:?}");
        assert_eq!(began.elapsed(), Duration::from_secs(7), "{refusal:?}");
    }
}

/// Random fields with random values, many of them nonsense.
fn random_answer(random: &mut Random) -> Response<Full<Bytes>> {
    const STATUSES: [u16; 7] = [200, 200, 204, 403, 429, 503, 500];
    const VALUES: [&str; 22] = [
        "\"l\";q=5;w=1",
        "\"l\";q=5;w=1, \"m\";q=9;w=90",
        "\"m\";r=2;t=9, \"l\";r=0",
        "0",
        "1",
        "2",
        "8",
        "14",
        "-1",
        "700",
        "86400",
        "1767225605",
        "99999999999999999999",
        "\"l\";r=0;t=86400",
        "\"l\";r=3;t=1, \"m\";r=0;t=1",
        "\"l\";r=0",
        "Fri, 31 Dec 9999 23:59:59 GMT",
        "Thu, 01 Jan 1970 00:00:00 GMT",
        "2262-04-11T23:47:16+23:59",
        "99999999h",
        "0.0, 3, soon",
        "soon",
    ];
    let mut one_of = |len: usize| usize::try_from(random.below(len as u64)).unwrap();
    let mut answer = Response::new(Full::default());
    *answer.status_mut() = StatusCode::from_u16(STATUSES[one_of(STATUSES.len())]).unwrap();
    for _ in 0..one_of(5) {
        let (field, value) = (FIELDS[one_of(FIELDS.len())], VALUES[one_of(VALUES.len())]);
        answer
            .headers_mut()
            .append(field, HeaderValue::from_static(value));
    }
    answer
}

#[tokio::test(start_paused = true)]
async fn random_answers_hold_no_request_back_for_longer_than_the_maximum() {
    const REQUESTS: u32 = 12;
    let (mut held, mut sent_again) = (0, 0);
    for seed in 0..scaled(150) {
        let random = Arc::new(Mutex::new(Random(seed)));
        let asked = Arc::new(AtomicU32::new(0));
        let counter = Arc::clone(&asked);
        let service = service_fn(move |_: Request<Full<Bytes>>| {
            counter.fetch_add(1, Ordering::Relaxed);
            let answer = random_answer(&mut random.lock().unwrap());
            async { Ok::<_, Infallible>(answer) }
        });
        let pace = PaceLayer::new()
            .max_wait(2 * SECOND)
            .retry(2)
            .layer(service);
        let mut all = JoinSet::new();
        for number in 0..REQUESTS {
            let pace = pace.clone();
            all.spawn(async move {
                tokio::time::sleep(SECOND * (number / 4)).await;
                let began = Instant::now();
                pace.oneshot(request("a")).await.unwrap();
                began.elapsed()
            });
        }
        for waited in all.join_all().await {
            // tokio's timer rounds up to a millisecond.
            assert!(
                waited <= 2 * SECOND + Duration::from_millis(1),
                "{seed}: {waited:?}"
            );
            held += u32::from(waited > Duration::ZERO);
        }
        let asked = asked.load(Ordering::Relaxed);
        assert!(
            (REQUESTS..=3 * REQUESTS).contains(&asked),
            "{seed}: {asked}"
        );
        sent_again += asked - REQUESTS;
    }
    assert!(held > 300 && sent_again > 100, "{held} {sent_again}");
}
