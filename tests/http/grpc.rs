//! Refusals over gRPC: which requests get them, and what a tonic client makes of them.

use http::{StatusCode, Version, header};
use http_body::Body;
use http_body_util::Full;
use tollgate::{Limit, RateLimitLayer, clock::ManualClock, response::Refusal};
use tower::{Layer, ServiceExt};

use crate::support::{Hello, as_grpc, from_ip, layer, limiter_of, send};

const IP: &str = "203.0.113.7";

/// A layer that has let its one request pass.
async fn exhausted() -> RateLimitLayer {
    let layer = layer(&limiter_of(&ManualClock::default(), Limit::per_minute(1)));
    assert_eq!(send(&layer, IP).await.status(), StatusCode::OK);
    layer
}

#[tokio::test]
async fn grpc_request_is_refused_by_trailers_only() {
    let layer = exhausted().await;
    let layer = layer
        .respond_with(|_: &Refusal<'_>| -> http::Response<bytes::Bytes> { panic!("not for gRPC") });
    for content_type in [
        "application/grpc",
        "application/grpc+proto",
        "application/grpc;charset=utf-8",
        "application/grpc-web",
        "application/grpc-web-text;charset=utf-8",
    ] {
        let request = as_grpc(from_ip(IP), content_type);
        let response = layer.layer(Hello).oneshot(request).await.unwrap();
        assert_eq!(response.status(), StatusCode::OK, "{content_type}");
        for (name, value) in [
            ("grpc-status", "8"),
            (
                "grpc-message",
                "too many requests (1 per minute, 1 at once) from 203.0.113.7: retry in 60 s",
            ),
            ("grpc-retry-pushback-ms", "60000"),
            ("retry-after", "60"),
            // gRPC-Web has types of its own.
            ("content-type", content_type),
        ] {
            assert_eq!(response.headers()[name], value, "{content_type}");
        }
        assert!(response.body().is_end_stream(), "{content_type}");
    }
}

#[tokio::test]
async fn method_and_content_type_make_a_request_one_of_grpc() {
    let layer = exhausted().await;
    for case in [
        "GET 1.1 application/grpc 429",
        "GET 2 application/grpc 429",
        "POST 1.1 application/grpc 200",
        "POST 2 application/grpc 200",
        "POST 1.1 Application/gRPC+proto 200",
        "POST 2 application/grpcx 429",
        "POST 2 application/grpc-foo 429",
        "POST 2 application/json 429",
        "GET 1.1 application/grpc-web 429",
        "PUT 2 application/grpc-web-text 429",
        "POST 1.1 application/grpc-website 429",
        "POST 1.1 application/grpc-web+proto 200",
    ] {
        let words: Vec<_> = case.split(' ').collect();
        let [method, version, content_type, status] = words[..] else {
            panic!("{case}")
        };
        let mut request: http::Request<Full<_>> = as_grpc(from_ip(IP), content_type);
        *request.method_mut() = method.parse().unwrap();
        if version == "1.1" {
            *request.version_mut() = Version::HTTP_11;
        }
        request.headers_mut().remove(header::TE);
        let response = layer.layer(Hello).oneshot(request).await.unwrap();
        assert_eq!(response.status().as_str(), status, "{case}");
    }
}

#[tokio::test]
async fn grpc_can_be_turned_off() {
    let layer = exhausted().await;
    let request = as_grpc(from_ip(IP), "application/grpc");
    let response = layer
        .grpc(false)
        .layer(Hello)
        .oneshot(request)
        .await
        .unwrap();
    assert_eq!(response.status(), 429);
}

#[cfg(feature = "tonic")]
pub(crate) mod tonic_client {
    use std::{net::SocketAddr, time::Duration};

    use tokio::net::TcpListener;
    use tollgate::{
        Limiter, Limits, MemoryBackend, Transaction, key::Everyone, limit::LimitName, tiers::Tier,
    };
    use tonic::{
        Code, Status,
        transport::{
            Channel, Endpoint, Server,
            server::{Router, TcpIncoming},
        },
    };
    use tonic_health::{
        ServingStatus,
        pb::{HealthCheckRequest, health_client::HealthClient, health_server},
        server::{HealthReporter, HealthService},
    };
    use tonic_types::StatusExt;

    use super::*;
    use crate::support::store::{Fate, Store};

    pub(crate) type Health = health_server::HealthServer<HealthService>;

    pub(crate) async fn health() -> Health {
        let reporter = HealthReporter::new();
        reporter
            .set_service_status("", ServingStatus::Serving)
            .await;
        Health::new(HealthService::from_health_reporter(reporter))
    }

    pub(crate) async fn bind() -> (TcpListener, SocketAddr) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        (listener, address)
    }

    async fn client(address: SocketAddr) -> HealthClient<Channel> {
        let endpoint = Endpoint::from_shared(format!("http://{address}")).unwrap();
        HealthClient::new(endpoint.connect().await.unwrap())
    }

    async fn check(client: &mut HealthClient<Channel>) -> Result<(), Status> {
        client.check(HealthCheckRequest::default()).await.map(drop)
    }

    fn two_calls() -> RateLimitLayer {
        layer(&limiter_of(&ManualClock::default(), Limit::per_minute(2)))
    }

    #[tokio::test]
    async fn layer_round_one_service_keeps_its_name() {
        let (listener, address) = bind().await;
        let limited = two_calls().layer(health().await);
        let server: Router = Server::builder().add_service(limited);
        tokio::spawn(server.serve_with_incoming(TcpIncoming::from(listener)));
        let mut client = client(address).await;
        check(&mut client).await.unwrap();
        check(&mut client).await.unwrap();
        let status = check(&mut client).await.unwrap_err();
        assert_eq!(status.code(), Code::ResourceExhausted);
        let message = "too many requests (2 per minute, 2 at once) from 127.0.0.1: retry in 30 s";
        assert_eq!(status.message(), message);
    }

    /// The status of a call through a layer.
    async fn refusal_by(layer: RateLimitLayer) -> Status {
        let (listener, address) = bind().await;
        let server = Server::builder().layer(layer).add_service(health().await);
        tokio::spawn(server.serve_with_incoming(TcpIncoming::from(listener)));
        check(&mut client(address).await).await.unwrap_err()
    }

    /// Returns the waits of a status: in `Retry-After`, in `RetryInfo`, and in the pushback.
    fn waits(status: &Status) -> (Option<u64>, Option<Duration>, i32) {
        let metadata = |name| status.metadata().get(name).map(|v| v.to_str().unwrap());
        let after = metadata("retry-after").map(|secs| secs.parse().unwrap());
        let info = status.get_details_retry_info();
        let pushback = metadata("grpc-retry-pushback-ms").unwrap();
        let info = info.map(|info| info.retry_delay.unwrap());
        (after, info, pushback.parse().unwrap())
    }

    /// A limit whose first call has been taken.
    fn taken(limit: Limit) -> Limiter {
        let limiter = limiter_of(&ManualClock::default(), limit);
        let taken = Transaction::new("requests", "127.0.0.1");
        limiter.try_spend(&taken).unwrap().unwrap();
        limiter
    }

    #[tokio::test]
    async fn details_have_the_exact_wait_the_limit_and_the_reference() {
        for (period_us, secs, ms) in [
            (333_334, 1, 334),
            (30_000_000, 30, 30_000),
            (86_400_000_001, 86_401, 86_400_001),
            // Beyond all integers, which is the longest pushback.
            (2_000_000_000_000_000, 2_000_000_000, i32::MAX),
        ] {
            let period = Duration::from_micros(period_us);
            let status = refusal_by(layer(&taken(Limit::new(1, 1, period).unwrap()))).await;
            assert_eq!(status.code(), Code::ResourceExhausted);
            assert_eq!(waits(&status), (Some(secs), Some(period), ms));
            let details = status.get_error_details();
            let violations = &details.quota_failure().unwrap().violations;
            assert_eq!(violations.len(), 1);
            assert_eq!(violations[0].subject, "requests:127.0.0.1");
            assert!(violations[0].description.starts_with("too many requests ("));
            let id = &details.request_info().unwrap().request_id;
            assert!(crate::refusals::is_reference(id), "{id}");
        }
    }

    #[tokio::test]
    async fn pushback_of_a_request_that_never_passes_is_minus_one() {
        let life = Limit::tiers([Tier::new(1, Tier::FOREVER)]).unwrap();
        for limit in [Limit::BLOCKED, life] {
            let status = refusal_by(layer(&taken(limit))).await;
            assert_eq!(status.code(), Code::ResourceExhausted);
            assert_eq!(waits(&status), (None, None, -1));
            assert!(status.get_details_quota_failure().is_some());
        }
    }

    #[tokio::test]
    async fn other_reasons_have_codes_of_their_own() {
        let limits = Limits::builder().limit("requests", Limit::per_minute(1));
        let away = Limiter::new(limits.build().unwrap(), Store::new(Fate::NoReply));
        let status = refusal_by(layer(&away)).await;
        assert_eq!(status.code(), Code::Unavailable);
        assert_eq!(
            waits(&status),
            (Some(1), Some(Duration::from_secs(1)), 1000)
        );
        assert!(status.get_details_quota_failure().is_none());
        let listed = refusal_by(two_calls().deny_if("all", |_| true)).await;
        assert_eq!(listed.code(), Code::PermissionDenied);
        let costly = RateLimitLayer::new(Limit::per_minute(2), Everyone);
        let costly = costly.with_rule(|rule| rule.cost_by(|_| 3));
        let costly = refusal_by(costly).await;
        let quota = costly.get_details_quota_failure().unwrap();
        assert!(costly.message().starts_with("the request costs 3"));
        assert_eq!(quota.violations[0].description, costly.message());
        let name = LimitName::from("requests").description("Prüfungen, 100\u{a0}% \"wahr\"");
        let limits = Limits::builder().limit(name, Limit::BLOCKED).build();
        let limiter = Limiter::new(limits.unwrap(), MemoryBackend::new());
        let message = "Prüfungen, 100\u{a0}% \"wahr\" are blocked for 127.0.0.1";
        assert_eq!(refusal_by(layer(&limiter)).await.message(), message);
    }
}
