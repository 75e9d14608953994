//! Servers with TLS, whose certificates are in `tests/data/tls`.

use std::{net::TcpListener, time::Duration};

use tollgate::{
    Limit, Limiter, Limits, RedisBackend, Transaction,
    backend::redis::{RedisBackendBuilder, RedisError},
};

use crate::{PATIENCE, TIMEOUT, redis_support::Server};

const AUTHORITY: &str = include_str!("../data/tls/ca.pem");
const CLIENT: &str = include_str!("../data/tls/client.pem");
const CLIENT_KEY: &str = include_str!("../data/tls/client.key");

/// Starts a server that asks clients for certificates, and returns its URL.
fn start() -> (Server, String) {
    let file = |name: &str| format!("{}/tests/data/tls/{name}", env!("CARGO_MANIFEST_DIR"));
    let (ca, certificate, key) = (file("ca.pem"), file("server.pem"), file("server.key"));
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = free.local_addr().unwrap().port().to_string();
    drop(free);
    let server = Server::start_with(&[
        "--tls-port",
        &port,
        "--tls-ca-cert-file",
        &ca,
        "--tls-cert-file",
        &certificate,
        "--tls-key-file",
        &key,
    ]);
    (server, format!("rediss://127.0.0.1:{port}"))
}

async fn connect(
    builder: RedisBackendBuilder,
    within: Duration,
) -> Result<RedisBackend, RedisError> {
    let backend = builder.timeout(TIMEOUT).build()?;
    backend.connected(within).await?;
    Ok(backend)
}

#[tokio::test]
async fn certificates_are_those_that_were_set() {
    let (_server, url) = start();
    let trusting = || RedisBackend::builder(url.as_str()).root_certificates(AUTHORITY);
    let known = trusting().client_certificate(CLIENT, CLIENT_KEY);
    let limits = Limits::builder()
        .limit("requests", Limit::per_hour(1))
        .build();
    let limiter = Limiter::new(limits.unwrap(), connect(known, PATIENCE).await.unwrap());
    let spend = async || limiter.spend(&Transaction::new("requests", "tls")).await;
    assert!(spend().await.unwrap().allowed());
    assert!(!spend().await.unwrap().allowed());

    let soon = Duration::from_secs(1);
    for stranger in [
        trusting(),
        RedisBackend::builder(url.as_str())
            .root_certificates(CLIENT)
            .client_certificate(CLIENT, CLIENT_KEY),
    ] {
        let refused = connect(stranger, soon).await;
        assert!(refused.is_err(), "{refused:?}");
    }
}

#[tokio::test]
async fn certificates_that_cannot_be_read_are_refused() {
    let builder = || RedisBackend::builder("rediss://localhost");
    for (builder, reason) in [
        (
            builder().root_certificates(""),
            "the root certificates must be PEM",
        ),
        (
            builder().root_certificates(CLIENT_KEY),
            "the root certificates must be PEM",
        ),
        (
            builder()
                .root_certificates(AUTHORITY)
                .client_certificate("x", CLIENT_KEY),
            "the client's certificate must be PEM",
        ),
        (
            builder()
                .root_certificates(AUTHORITY)
                .client_certificate(CLIENT, CLIENT),
            "not a private key in PEM",
        ),
    ] {
        let error = builder.build().unwrap_err().to_string();
        assert!(error.contains(reason), "{error}");
    }
}
