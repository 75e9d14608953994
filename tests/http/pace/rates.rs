//! What an obedient client gets of its rate by lines, by exact refusals, and over gRPC. Server and client share tokio's
//! clock, which stands still while anything is on its way: so what is measured is what the answers cost.

use std::time::Duration;

use tokio::time::Instant;
use tollgate::{Limit, pace::PaceLayer, response::Headers};
use tower::{Layer, ServiceExt};

use super::{
    request,
    simulated::{World, layer, possible},
    with_milliseconds,
};

const PER_SECOND: u32 = 3;
const TIME: Duration = Duration::from_secs(100);

#[tokio::test(start_paused = true)]
async fn paced_client_gets_all_of_its_rate_from_a_limit_with_a_line() {
    for headers in [Headers::Draft11, Headers::XRateLimitDelta] {
        for (burst, wait_ms) in [(1, 500), (1, 2000), (3, 1000)] {
            let limit = Limit::per_second(PER_SECOND).burst(burst);
            let limit = limit.max_wait(Duration::from_millis(wait_ms));
            let layer = layer(&[("requests", limit, 1)]).headers(headers);
            let (world, began) = (World::new(&layer), Instant::now());
            let pace = PaceLayer::new().retry(0).layer(world.service());
            while began.elapsed() < TIME {
                pace.clone().oneshot(request("a")).await.unwrap();
            }
            let outcome = world.outcome(TIME);
            let what = (headers, burst, wait_ms);
            assert_eq!(outcome.refused(), 0, "{what:?}");
            outcome.assert_share(possible(burst, PER_SECOND, TIME), 970, &what);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn client_without_a_burst_gets_nearly_all_of_its_rate_by_exact_refusals() {
    let limit = Limit::per_second(PER_SECOND).burst(1);
    let layer = layer(&[("requests", limit, 1)]).headers(Headers::None);
    let world = World::new(&layer.respond_with(with_milliseconds));
    world.client(&PaceLayer::new(), TIME).join_all().await;
    let outcome = world.outcome(TIME);
    assert_eq!(outcome.refused_in_a_row(), 1);
    outcome.assert_share(possible(1, PER_SECOND, TIME), 970, &"exact refusals");
}

#[cfg(feature = "tonic")]
mod grpc {
    use futures_util::{StreamExt, stream};
    use hyper_util::rt::TokioIo;
    use tokio::{io::duplex, time::sleep};
    use tollgate::RateLimitLayer;
    use tonic::{
        Code, Status,
        transport::{Channel, Endpoint, Server},
    };
    use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};
    use tonic_types::StatusExt;
    use tower::service_fn;

    use super::*;

    const REQUESTS: u32 = 300;

    fn limited(limit: Limit) -> RateLimitLayer {
        layer(&[("requests", limit, 1)])
    }

    /// How much of its rate a client gets that was served so many requests beyond the burst since then, in thousandths.
    fn thousandths(began: Instant, beyond: u32) -> u128 {
        let least_us = u128::from(beyond) * 1_000_000 / u128::from(PER_SECOND);
        least_us * 1000 / began.elapsed().as_micros()
    }

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
