//! The routes on a real server, and who asks them.

use std::{net::SocketAddr, time::Duration};

use axum::body::Body;
use http::{Method, Request, StatusCode, header::AUTHORIZATION};
use http_body_util::BodyExt;
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use serde_json::Value;
use tokio::net::TcpListener;
use tollgate::{
    Limit, Limiter, Limits, MemoryBackend,
    clock::ManualClock,
    id::IdFormat,
    limit::{LimitName, LimitsBuilder},
    tiers::Tier,
};

use super::{admin, token::Token};

pub(crate) const TOKEN: &str = "correct-horse-battery-staple";

/// The routes for admins, and the limiter that they look into.
pub(crate) struct Admin {
    pub(crate) limiter: Limiter,
    address: SocketAddr,
    client: Client<HttpConnector, Body>,
}

impl Admin {
    /// Serves with [`limits`], by a clock that stands still.
    pub(crate) async fn start() -> Self {
        let limiter = Limiter::new(limits().build().unwrap(), MemoryBackend::new());
        Self::of(limiter.with_clock(ManualClock::default())).await
    }

    pub(crate) async fn of(limiter: Limiter) -> Self {
        let router = admin::router(limiter.clone(), Token::new(TOKEN).unwrap());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async { axum::serve(listener, router).await });
        Self {
            limiter,
            address,
            client: Client::builder(TokioExecutor::new()).build_http(),
        }
    }

    /// Asks as an admin does.
    pub(crate) async fn get(&self, path: &str) -> (StatusCode, Value) {
        self.ask(Method::GET, path).await
    }

    pub(crate) async fn delete(&self, path: &str) -> (StatusCode, Value) {
        self.ask(Method::DELETE, path).await
    }

    pub(crate) async fn put(&self, path: &str) -> (StatusCode, Value) {
        self.ask(Method::PUT, path).await
    }

    pub(crate) async fn ask(&self, method: Method, path: &str) -> (StatusCode, Value) {
        let authorization = format!("Bearer {TOKEN}");
        self.send(method, path, &[authorization.as_bytes()]).await
    }

    /// Asks with these fields of `Authorization`. The path is sent as it is, dots included.
    pub(crate) async fn send(
        &self,
        method: Method,
        path: &str,
        authorizations: &[&[u8]],
    ) -> (StatusCode, Value) {
        let uri = format!("http://{}{path}", self.address);
        let mut request = Request::builder().method(method).uri(uri);
        for authorization in authorizations {
            request = request.header(AUTHORIZATION, *authorization);
        }
        let request = request.body(Body::empty()).unwrap();
        let (head, body) = self.client.request(request).await.unwrap().into_parts();
        assert_eq!(head.headers["content-type"], "application/json", "{path}");
        let challenged = head.headers.contains_key("www-authenticate");
        assert_eq!(challenged, head.status == StatusCode::UNAUTHORIZED);
        let body = body.collect().await.unwrap().to_bytes();
        (head.status, serde_json::from_slice(&body).unwrap())
    }
}

/// A limit of each kind.
pub(crate) fn limits() -> LimitsBuilder {
    let secs = Duration::from_secs;
    let tiers = [
        Tier::new(5, secs(1)),
        Tier::new(1, secs(15)).active(secs(15)),
    ];
    Limits::builder()
        .limit("any", Limit::per_second(10).burst(20))
        .limit(
            LimitName::new("ranges", 2, IdFormat::Ipv6Range).shadow(true),
            Limit::per_second(100),
        )
        .limit(
            LimitName::new("domains", 5, IdFormat::Domain),
            Limit::per_day(50),
        )
        .limit("tiers", Limit::tiers(tiers).unwrap())
        .name(LimitName::new("accounts", 6, IdFormat::RegId))
        .block(
            LimitName::new("unpaid", 9, IdFormat::RegId),
            "this account is paused: pay the open invoice",
        )
        .override_for("unpaid", "666", Limit::BLOCKED)
        .override_for("accounts", "7", Limit::per_hour(7))
        .override_for("any", "vip", Limit::UNLIMITED)
        .override_for("any", "banned", Limit::BLOCKED)
}
