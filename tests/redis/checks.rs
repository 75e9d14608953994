//! What is looked for in a Redis server: told once, refused if strict, silent in ordinary use.

#![allow(clippy::unwrap_used, reason = "a test panics to fail")]

use std::{net::SocketAddr, time::Duration};

use tokio::{
    io::{self, AsyncReadExt, AsyncWriteExt},
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
};
use tollgate::{
    RedisBackend,
    backend::redis::RedisError,
    check::{Check, Checks},
};

use crate::{redis_support::Server, support::Log};

const PATIENCE: Duration = Duration::from_secs(120);

/// A backend that has been connected, and whose servers have been looked at.
async fn connect(url: impl Into<String>, checks: Checks) -> Result<RedisBackend, RedisError> {
    let backend = RedisBackend::builder(url).timeout(PATIENCE).checks(checks);
    let backend = backend.build()?;
    backend.connected(PATIENCE).await?;
    Ok(backend)
}

/// How often a check is told of a server, once it has been looked at.
async fn told(url: impl Into<String>, check: Check, checks: Checks) -> usize {
    let (log, _guard) = Log::capture();
    let backend = connect(url, checks).await.unwrap();
    drop(backend);
    log.count(&format!("check=\"{}\"", check.code()))
}

fn refused(connected: Result<RedisBackend, RedisError>) -> Option<Check> {
    match connected {
        Err(RedisError::Check(finding)) => Some(finding.check),
        _ => None,
    }
}

#[tokio::test]
async fn server_that_evicts_is_told_once_or_refused() {
    const CHECK: Check = Check::BucketsEvicted;
    let server =
        Server::start_with(&["--maxmemory", "100mb", "--maxmemory-policy", "volatile-lru"]);
    assert_eq!(told(server.url(), CHECK, Checks::new()).await, 1);
    let connected = connect(server.url(), Checks::new().strict()).await;
    assert_eq!(refused(connected), Some(CHECK));
    let off = Checks::new().without(CHECK);
    assert_eq!(told(server.url(), CHECK, off).await, 0);
    assert!(connect(server.url(), off.strict()).await.is_ok());
}

#[tokio::test]
async fn server_that_does_not_evict_is_ordinary() {
    let whole = Server::start_with(&["--maxmemory-policy", "allkeys-lru"]);
    let bounded = Server::start_with(&["--maxmemory", "100mb"]);
    for server in [whole, bounded] {
        for check in Check::ALL {
            assert_eq!(
                told(server.url(), *check, Checks::new()).await,
                0,
                "{check}"
            );
        }
        assert!(connect(server.url(), Checks::new().strict()).await.is_ok());
    }
}

#[tokio::test]
async fn server_that_may_not_be_asked_is_let_be() {
    let server = Server::start();
    let user = [
        "ACL", "SETUSER", "limited", "on", ">secret", "~*", "+@all", "-info", "-time",
    ];
    server.command(&user).expect_success();
    let url = server.url().replace("redis://", "redis://limited:secret@");
    assert!(connect(url, Checks::new().strict()).await.is_ok());
}

#[tokio::test]
async fn clock_that_is_apart_is_told_once_or_refused() {
    const CHECK: Check = Check::ClockSkew;
    let server = Server::start();
    for (skew, seen) in [(-60, true), (-2, false), (2, false), (60, true)] {
        let url = async || format!("redis://{}", with_clock(server.addr(), skew).await);
        let times = told(url().await, CHECK, Checks::new()).await;
        assert_eq!(times, usize::from(seen), "{skew} s");
        let connected = connect(url().await, Checks::new().strict()).await;
        assert_eq!(refused(connected), seen.then_some(CHECK), "{skew} s");
    }
}

/// A relay to a server, on which the time is `skew` seconds ahead.
async fn with_clock(server: SocketAddr, skew: i64) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let server = TcpStream::connect(server).await.unwrap();
            let (mut from_client, to_client) = client.into_split();
            let (from_server, mut to_server) = server.into_split();
            tokio::spawn(async move { io::copy(&mut from_client, &mut to_server).await });
            tokio::spawn(relay(from_server, to_client, skew));
        }
    });
    address
}

/// Passes answers on, and adds `skew` to the seconds of `TIME`. They have ten digits, before and after.
async fn relay(mut from_server: OwnedReadHalf, mut to_client: OwnedWriteHalf, skew: i64) {
    const TIME: &[u8] = b"*2\r\n$10\r\n";
    let mut buffer = vec![0; 65_536];
    while let Ok(read @ 1..) = from_server.read(&mut buffer).await {
        let answers = &mut buffer[..read];
        if let Some(at) = answers.windows(TIME.len()).position(|part| part == TIME) {
            let secs = &mut answers[at + TIME.len()..][..10];
            let told: i64 = str::from_utf8(secs).unwrap().parse().unwrap();
            secs.copy_from_slice((told + skew).to_string().as_bytes());
        }
        to_client.write_all(answers).await.unwrap();
    }
}
