//! The errors for servers that cannot be used.

use std::time::Duration;

use tollgate::{Limiter, RedisBackend, Transaction, backend::redis::RedisError};

use crate::{
    CLUSTER,
    eventually::{PATIENCE, eventually, eventually_async},
    load::{TIMEOUT, limits, patient_limiter, reason},
    redis_support::Server,
};

fn one() -> Transaction<'static> {
    Transaction::new("one", "id")
}

fn backend(url: &str) -> RedisBackend {
    RedisBackend::builder(url).timeout(TIMEOUT).build().unwrap()
}

/// The error of a decision.
async fn error_of(limiter: &Limiter, transaction: &Transaction<'_>) -> RedisError {
    reason(&limiter.spend(transaction).await.unwrap_err())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn name_that_does_not_resolve_is_an_error_in_time() {
    for scheme in ["redis", "redis-cluster"] {
        let backend = backend(&format!("{scheme}://nowhere.invalid"));
        eventually_async("the reason is known", async || {
            let connected = backend.connected(Duration::from_millis(100)).await;
            let error = connected.unwrap_err();
            assert!(!error.is_permanent(), "{error}");
            error.to_string().contains("lookup")
        })
        .await;
        let limiter = Limiter::new(limits(), backend);
        eventually_async("the reason is known", async || {
            matches!(
                error_of(&limiter, &one()).await,
                RedisError::Disconnected(_)
            )
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn url_of_one_server_to_a_cluster_is_an_error_with_a_remedy() {
    let mut said_at_once = 0;
    for node in CLUSTER.masters() {
        let backend = backend(&node.url());
        // A node with the slot that is asked for first looks like a server of its own until another slot is asked for.
        let error = match backend.connected(PATIENCE).await {
            Err(error) => {
                assert!(error.is_permanent(), "{error}");
                said_at_once += 1;
                error
            }
            Ok(()) => {
                let mut ids = (0..).map(|number| number.to_string());
                let elsewhere =
                    |id: &String| CLUSTER.owner(CLUSTER.slot_of_client(id)).id() != node.id();
                let id = ids.find(elsewhere).unwrap();
                let limiter = Limiter::new(limits(), backend);
                error_of(&limiter, &Transaction::new("one", &id)).await
            }
        };
        let text = error.to_string();
        let remedy = "this is a cluster: use `redis-cluster://`";
        assert!(text.contains(remedy), "{text}");
    }
    assert_eq!(said_at_once, CLUSTER.masters().len() - 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn full_server_refuses_and_charges_nothing() {
    let server = Server::start();
    let limiter = patient_limiter(server.url()).await;
    server.exec(&["SET", "other", &"x".repeat(1 << 20)]);
    server.configure("maxmemory", "1mb");
    let error = error_of(&limiter, &one()).await;
    assert!(
        matches!(&error, RedisError::Refused(text) if text.starts_with("OOM")),
        "{error}"
    );
    let batch = [one(), Transaction::new("one", "other")];
    let error = reason(&limiter.spend_batch(&batch).await.unwrap_err());
    assert!(error.to_string().contains("raise `maxmemory`"), "{error}");
    server.configure("maxmemory", "0");
    assert_eq!(server.keys(), ["other"]);
    assert!(limiter.spend(&one()).await.unwrap().allowed());
}

/// Returns the error for a server that accepts no writes, with its remedy.
async fn refusal_of(limiter: &Limiter, server: &Server) -> String {
    let error = reason(&limiter.spend(&one()).await.unwrap_err());
    assert!(server.keys().is_empty());
    assert!(!error.is_permanent(), "{error}");
    error.to_string()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn master_without_replicas_is_an_error_with_a_remedy() {
    let server = Server::start_with(&["--min-replicas-to-write", "1"]);
    let limiter = patient_limiter(server.url()).await;
    let text = refusal_of(&limiter, &server).await;
    assert!(
        text.contains("NOREPLICAS") && text.contains("lower `min-replicas-to-write`"),
        "{text}"
    );
    assert!(!text.contains("a prefix of its own"), "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn server_that_cannot_save_is_an_error_with_a_remedy() {
    let server = Server::start();
    // The server does not answer clients that connect later.
    let limiter = patient_limiter(server.url()).await;
    // A snapshot cannot take the place of a directory.
    let home = server.unix_path().parent().unwrap().to_owned();
    std::fs::create_dir(home.join("dump.rdb")).unwrap();
    server.configure("save", "3600 1000");
    server.exec(&["BGSAVE"]);
    eventually("the snapshot has failed", || {
        server.info("rdb_last_bgsave_status") == "err"
    });
    let text = refusal_of(&limiter, &server).await;
    assert!(
        text.contains("MISCONF") && text.contains("free its disk"),
        "{text}"
    );
    assert!(!text.contains("a prefix of its own"), "{text}");
}
