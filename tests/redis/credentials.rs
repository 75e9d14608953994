//! Passwords that change while decisions are made.

use std::{
    io,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
};

use tokio::task::JoinSet;
use tollgate::{Limiter, RedisBackend, Transaction, backend::redis::RedisError};

use crate::{
    connect_as,
    eventually::eventually_async,
    load::{limits, reason},
    redis_support::Server,
};

/// Gives the user another password, and ends all connections.
fn set_password(server: &Server, password: &str) {
    let password = format!(">{password}");
    let rights = ["~*", "+@all", "on", "resetpass", &password];
    server.exec(&[&["ACL", "SETUSER", "tollgate"], &rights[..]].concat());
    server.exec(&["CLIENT", "KILL", "USER", "tollgate"]);
}

/// A password that a function returns.
type Shared = Arc<Mutex<String>>;

async fn limiter(server: &Server, password: &Shared) -> Limiter {
    let shared = Arc::clone(password);
    let backend = RedisBackend::builder(server.url()).credentials(move || {
        let password = shared.lock().unwrap().clone();
        async { Ok::<_, io::Error>(("tollgate".to_owned(), password)) }
    });
    Limiter::new(limits(), connect_as(backend).await)
}

async fn check(limiter: &Limiter) -> Result<(), RedisError> {
    let checked = limiter.check(&Transaction::new("one", "id")).await;
    checked.map(drop).map_err(|error| reason(&error))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn password_that_changes_under_load_fails_decisions_until_the_reconnection_alone() {
    let server = Server::start();
    set_password(&server, "first");
    let password = Shared::new(Mutex::new("first".to_owned()));
    let limiter = limiter(&server, &password).await;
    // Odd while the password changes.
    let phase = Arc::new(AtomicUsize::new(0));
    let mut callers = JoinSet::new();
    for _ in 0..8 {
        let limiter = limiter.clone();
        let phase = Arc::clone(&phase);
        callers.spawn(async move {
            let mut made = 0;
            loop {
                let before = phase.load(SeqCst);
                let checked = check(&limiter).await;
                let after = phase.load(SeqCst);
                match checked {
                    Ok(()) => made += 1,
                    Err(error) => {
                        assert!(before % 2 == 1 || before != after, "{error}");
                        assert!(!error.is_permanent(), "{error}");
                        // The breaker answers at once.
                        tokio::task::yield_now().await;
                    }
                }
                if after == usize::MAX {
                    return made;
                }
            }
        });
    }
    for next in ["second", "third", "fourth"] {
        phase.fetch_add(1, SeqCst);
        next.clone_into(&mut password.lock().unwrap());
        set_password(&server, next);
        eventually_async("it decides again", async || check(&limiter).await.is_ok()).await;
        phase.fetch_add(1, SeqCst);
        for _ in 0..200 {
            check(&limiter).await.unwrap();
        }
    }
    phase.store(usize::MAX, SeqCst);
    let made = callers.join_all().await;
    assert!(made.iter().all(|made| *made > 0), "{made:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn function_that_is_late_is_asked_again() {
    let server = Server::start();
    set_password(&server, "first");
    let password = Shared::new(Mutex::new("first".to_owned()));
    let limiter = limiter(&server, &password).await;
    set_password(&server, "second");
    eventually_async("the first password is refused", async || {
        let checked = check(&limiter).await;
        checked.is_err_and(|error| error.to_string().contains("WRONGPASS"))
    })
    .await;
    "second".clone_into(&mut password.lock().unwrap());
    eventually_async("the second one is taken", async || {
        check(&limiter).await.is_ok()
    })
    .await;
}

#[tokio::test]
async fn error_of_the_function_is_the_source() {
    let backend = RedisBackend::builder("redis://127.0.0.1:1")
        .credentials(async || Err::<(String, String), _>("the vault is sealed"))
        .build()
        .unwrap();
    let mut error = None;
    eventually_async("the function has failed", async || {
        let connected = backend
            .connected(std::time::Duration::from_millis(100))
            .await;
        error = connected.err();
        matches!(error, Some(RedisError::Credentials(_)))
    })
    .await;
    let source = std::error::Error::source(error.as_ref().unwrap()).unwrap();
    assert_eq!(source.to_string(), "the vault is sealed");
}
