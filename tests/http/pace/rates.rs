//! What an obedient client gets of its rate. Server and client are connected in memory and share tokio's clock, which
//! stands still while anything is on its way: so what is measured is what the fields cost.

use std::{convert::Infallible, time::Duration};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Empty, Full};
use hyper_util::{rt::TokioIo, service::TowerToHyperService};
use tokio::{
    io::duplex,
    sync::Mutex,
    time::{Instant, sleep},
};
use tollgate::{
    Limit, Limiter, Limits, MemoryBackend, RateLimitLayer, Rule, clock::TokioClock, key::Everyone,
    pace::PaceLayer, response::Headers,
};
use tower::{Layer, ServiceExt, service_fn};

use super::with_milliseconds;

/// As many requests as the limit lets through in a hundred seconds, at once at first.
const REQUESTS: u32 = 300;
const PER_SECOND: u32 = 3;

fn limited(limit: Limit) -> RateLimitLayer {
    let limits = Limits::builder().limit("requests", limit).build().unwrap();
    let limiter = Limiter::new(limits, MemoryBackend::new()).with_clock(TokioClock::default());
    RateLimitLayer::with_limiter(limiter).rule(Rule::new("requests", Everyone))
}

/// How much of its rate a client gets that was served so many requests beyond the burst since then, in thousandths.
fn thousandths(began: Instant, beyond: u32) -> u128 {
    let least_us = u128::from(beyond) * 1_000_000 / u128::from(PER_SECOND);
    least_us * 1000 / began.elapsed().as_micros()
}

/// Serves HTTP/1.1 on one connection, and returns the client's end of it.
async fn connect(layer: RateLimitLayer) -> hyper::client::conn::http1::SendRequest<Empty<Bytes>> {
    let (client, server) = duplex(64 * 1024);
    let hello = service_fn(async |_: Request<hyper::body::Incoming>| {
        Ok::<_, Infallible>(Response::new(Full::<Bytes>::from("hello")))
    });
    let service = TowerToHyperService::new(layer.layer(hello));
    let http = hyper::server::conn::http1::Builder::new();
    tokio::spawn(http.serve_connection(TokioIo::new(server), service));
    let (sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(client))
        .await
        .unwrap();
    tokio::spawn(connection);
    sender
}

/// How many requests of a paced client are refused, before one more than all of them has passed.
async fn refused(layer: RateLimitLayer, pace: PaceLayer<tollgate::pace::Cloned>) -> u32 {
    let connection = std::sync::Arc::new(Mutex::new(connect(layer).await));
    let client = service_fn(move |request: Request<Empty<Bytes>>| {
        let connection = std::sync::Arc::clone(&connection);
        async move {
            let mut connection = connection.lock().await;
            connection.ready().await?;
            connection.send_request(request).await
        }
    });
    let (client, mut refused) = (pace.layer(client), 0);
    for _ in 0..REQUESTS {
        let request = Request::get("http://server/").body(Empty::new()).unwrap();
        let answer = client.clone().oneshot(request).await.unwrap();
        refused += u32::from(answer.status() != 200);
        answer.into_body().collect().await.unwrap();
    }
    refused
}

#[tokio::test(start_paused = true)]
async fn paced_client_gets_nearly_all_of_its_rate_over_http() {
    for headers in [Headers::Draft10, Headers::XRateLimitDelta] {
        let layer = limited(Limit::per_second(PER_SECOND)).headers(headers);
        let began = Instant::now();
        assert_eq!(refused(layer, PaceLayer::new().retry(0)).await, 0);
        let share = thousandths(began, REQUESTS - PER_SECOND);
        assert!((970..=1000).contains(&share), "{headers:?}: {share}");
    }
}

#[tokio::test(start_paused = true)]
async fn paced_client_gets_all_of_its_rate_from_a_limit_with_a_line() {
    for headers in [Headers::Draft10, Headers::XRateLimitDelta] {
        for (burst, wait_ms) in [(1, 500), (1, 2000), (3, 1000)] {
            let limit = Limit::per_second(PER_SECOND).burst(burst);
            let layer = limited(limit.max_wait(Duration::from_millis(wait_ms)));
            let began = Instant::now();
            let pace = PaceLayer::new().retry(0);
            assert_eq!(refused(layer.headers(headers), pace).await, 0);
            let share = thousandths(began, REQUESTS - burst);
            assert!((970..=1000).contains(&share), "{headers:?}: {share}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn client_without_a_burst_gets_nearly_all_of_its_rate_by_exact_refusals() {
    let layer = limited(Limit::per_second(PER_SECOND).burst(1));
    let layer = layer.headers(Headers::None).respond_with(with_milliseconds);
    let began = Instant::now();
    assert_eq!(refused(layer, PaceLayer::new().retry(1)).await, 0);
    let share = thousandths(began, REQUESTS - 1);
    assert!((970..=1000).contains(&share), "{share}");
}

#[cfg(feature = "tonic")]
mod grpc {
    use futures_util::{StreamExt, stream};
    use tonic::{
        Code, Status,
        transport::{Channel, Endpoint, Server},
    };
    use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};
    use tonic_types::StatusExt;

    use super::*;

    /// A tonic client and a tonic server with such a limit.
    async fn connect(layer: RateLimitLayer) -> Channel {
        let (client, server) = duplex(64 * 1024);
        let (reporter, health) = tonic_health::server::health_reporter();
        reporter
            .set_service_status("", tonic_health::ServingStatus::Serving)
            .await;
        let server = stream::once(async { Ok::<_, std::io::Error>(server) });
        let served = Server::builder().layer(layer).add_service(health);
        tokio::spawn(served.serve_with_incoming(server.chain(stream::pending())));
        let mut client = Some(client);
        let connector = service_fn(move |_: http::Uri| {
            let client = client.take().map(TokioIo::new);
            async { client.ok_or_else(|| std::io::Error::other("connected already")) }
        });
        let endpoint = Endpoint::from_static("http://server");
        endpoint.connect_with_connector(connector).await.unwrap()
    }

    /// gRFC A6, for the clients that configure it: a refused call is sent again after its pushback.
    async fn check_with_retries(client: &mut HealthClient<Channel>) -> u32 {
        for attempt in 1..=5 {
            let answer = client.check(HealthCheckRequest::default()).await;
            let Err(status) = answer else {
                return attempt;
            };
            assert_eq!(status.code(), Code::ResourceExhausted);
            sleep(pushback(&status)).await;
        }
        panic!("refused five times")
    }

    fn pushback(status: &Status) -> Duration {
        let ms = status.metadata().get("grpc-retry-pushback-ms").unwrap();
        Duration::from_millis(ms.to_str().unwrap().parse().unwrap())
    }

    #[tokio::test(start_paused = true)]
    async fn client_with_the_standard_retry_policy_gets_nearly_all_of_its_rate() {
        for burst in [1, PER_SECOND] {
            let limit = Limit::per_second(PER_SECOND).burst(burst);
            let mut client = HealthClient::new(connect(limited(limit)).await);
            let began = Instant::now();
            for _ in 0..REQUESTS {
                let attempts = check_with_retries(&mut client).await;
                assert!(attempts <= 2, "the pushback is long enough");
            }
            let share = thousandths(began, REQUESTS - burst);
            assert!((970..=1000).contains(&share), "{share}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn paced_client_is_not_refused_where_the_fields_say_what_remains() {
        let layer = limited(Limit::per_second(PER_SECOND));
        let channel = PaceLayer::new().layer(connect(layer).await);
        let mut client = HealthClient::new(channel);
        let began = Instant::now();
        for _ in 0..REQUESTS {
            let answer = client.check(HealthCheckRequest::default()).await;
            assert!(answer.is_ok(), "{answer:?}");
        }
        let share = thousandths(began, REQUESTS - PER_SECOND);
        assert!((970..=1000).contains(&share), "{share}");
    }

    #[tokio::test(start_paused = true)]
    async fn paced_client_is_refused_only_once_for_each_call() {
        // Fields about what remains would say 1 s instead of a third.
        let layer = limited(Limit::per_second(PER_SECOND).burst(1)).headers(Headers::None);
        let channel = PaceLayer::new().layer(connect(layer).await);
        let mut client = HealthClient::new(channel);
        let (began, mut in_a_row) = (Instant::now(), 0);
        let mut passed = 0;
        while passed < REQUESTS {
            match client.check(HealthCheckRequest::default()).await {
                Ok(_) => (passed, in_a_row) = (passed + 1, 0),
                Err(status) => {
                    assert!(status.get_details_retry_info().is_some(), "{status}");
                    in_a_row += 1;
                    assert_eq!(in_a_row, 1);
                }
            }
        }
        let share = thousandths(began, REQUESTS - 1);
        assert!((970..=1000).contains(&share), "{share}");
    }
}
