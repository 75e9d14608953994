//! What is read from gRPC's responses: their heads and their trailers.

use std::{
    convert::Infallible,
    sync::{Arc, Mutex},
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Request};
use http_body_util::{BodyExt, Full};
use tokio::time::Instant;
use tollgate::pace::PaceLayer;
use tower::{Layer, ServiceExt, service_fn};

use super::{SECOND, Script, fields, request, response};

/// How long the second request is held back after the first was answered with such a head and such trailers.
async fn held_after_trailers(head: Script, trailers: HeaderMap, reads: bool) -> Duration {
    let first = Arc::new(Mutex::new(Some(trailers)));
    let service = service_fn(move |_: Request<Full<Bytes>>| {
        let trailers = first.lock().unwrap().take();
        let body = Full::<Bytes>::default().with_trailers(async move { trailers.map(Ok) });
        async { Ok::<_, Infallible>(response(head).map(|_| body)) }
    });
    let (began, pace) = (Instant::now(), PaceLayer::new().layer(service));
    let answer = pace.clone().oneshot(request("a")).await.unwrap();
    if reads {
        let collected = answer.into_body().collect().await.unwrap();
        assert!(collected.trailers().is_some(), "they are passed on");
    }
    pace.oneshot(request("a")).await.unwrap();
    began.elapsed()
}

fn trailers(script: Script) -> HeaderMap {
    let fields = fields(script).map(|(name, value)| {
        let name = HeaderName::from_static(name);
        (name, HeaderValue::from_static(value))
    });
    fields.collect()
}

const GRPC: Script = "content-type: application/grpc";

const REFUSED: Script = "grpc-status: 8 | grpc-retry-pushback-ms: 334";

/// The head, the trailers, and for how many milliseconds the next call is held back.
const CASES: &[(Script, Script, u64)] = &[
    (GRPC, REFUSED, 334),
    ("content-type: application/grpc+proto", REFUSED, 334),
    (GRPC, "grpc-status: 14 | grpc-retry-pushback-ms: 50", 50),
    (GRPC, "grpc-status: 8", 1000),
    (GRPC, "grpc-status: 14", 0),
    (GRPC, "grpc-status: 0", 0),
    (GRPC, "grpc-status: 8 | grpc-retry-pushback-ms: -1", 0),
    (GRPC, "grpc-status: 0 | grpc-retry-pushback-ms: 9000", 0),
    // Fields about what remains do not belong into trailers.
    (GRPC, "grpc-status: 0 | ratelimit: \"l\";r=0;t=9", 0),
    (
        GRPC,
        "grpc-status: 8 | grpc-retry-pushback-ms: 2147483647",
        60_000,
    ),
    // It is not a call of gRPC.
    ("content-type: text/plain", REFUSED, 0),
    ("content-type: application/grpc-web", REFUSED, 0),
    ("", REFUSED, 0),
    // The head has told already how it ended.
    (
        "content-type: application/grpc | grpc-status: 0",
        REFUSED,
        0,
    ),
];

#[tokio::test(start_paused = true)]
async fn refusal_in_the_trailers_holds_further_calls_back() {
    for (head, script, ms) in CASES {
        let held = held_after_trailers(head, trailers(script), true).await;
        assert_eq!(held, Duration::from_millis(*ms), "{head:?} {script:?}");
    }
    let unread = held_after_trailers(GRPC, trailers(REFUSED), false).await;
    assert_eq!(unread, Duration::ZERO);
}

#[cfg(feature = "tonic")]
#[tokio::test(start_paused = true)]
async fn retry_info_in_the_trailers_is_read() {
    use tonic::{Code, Status};
    use tonic_types::{ErrorDetails, StatusExt};

    let details = ErrorDetails::with_retry_info(Some(5 * SECOND));
    let status = Status::with_error_details(Code::ResourceExhausted, "", details);
    let mut trailers = HeaderMap::new();
    status.add_header(&mut trailers).unwrap();
    let held = held_after_trailers(GRPC, trailers, true).await;
    assert_eq!(held, 5 * SECOND);
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
        async { Ok::<_, Infallible>(answer.unwrap_or_else(|| response(""))) }
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
