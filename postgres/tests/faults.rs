//! What a server does to decisions when it fails: killed connections and servers, one that stops, a full disk, locks, a missing
//! table, a standby.

use std::{
    error::Error,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use sqlx::postgres::PgPoolOptions;
use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
    task::JoinSet,
    time::{Instant, pause, resume},
};
use tollgate::{
    Limit, Limiter, Limits, Transaction,
    backend::{Backend, BackendError, FailurePolicy},
    decision::Source,
    limiter::LimiterError,
    quota::Per,
    testing::block_on,
};
use tollgate_postgres::PostgresBackend;

use crate::{
    eventually::{PATIENCE, eventually_async},
    process::Port,
    server::{Server, url},
};

const QUOTA: u32 = 2000;

fn limiter(backend: impl Backend) -> Limiter {
    let limits = Limits::builder().limit("quota", Limit::quota(QUOTA, Per::Month));
    Limiter::new(limits.build().unwrap(), backend)
}

/// An error and its causes.
fn text_of(error: &dyn Error) -> String {
    let cause = error.source().map(text_of).unwrap_or_default();
    format!("{error}: {cause}")
}

/// Returns the text of the error of a decision, which has certainly charged nothing.
async fn refused(backend: PostgresBackend) -> String {
    let limiter = limiter(backend);
    let error = limiter
        .spend(&Transaction::new("quota", "a"))
        .await
        .unwrap_err();
    let is_not_done = matches!(&error, LimiterError::Backend(BackendError::NotDone(_)));
    assert!(is_not_done, "{error:?}");
    text_of(&error)
}

/// Spends until a decision has this source.
async fn until(limiter: &Limiter, source: Source) {
    let id = format!("{source:?}");
    let spend = Transaction::new("quota", &id);
    eventually_async(&id, async || {
        limiter.spend(&spend).await.unwrap().source() == source
    })
    .await;
}

/// Spends for one client by many callers. Each returns what it is admitted until `ends`, and then until the store denies it.
fn spend_all(limiter: &Limiter, ends: &Arc<AtomicBool>) -> JoinSet<u32> {
    let mut callers = JoinSet::new();
    for _ in 0..16 {
        let limiter = limiter.clone();
        let ends = Arc::clone(ends);
        callers.spawn(async move {
            let mut admitted = 0;
            let mut denied = 0;
            while denied < 50 {
                let decision = limiter
                    .spend(&Transaction::new("quota", "hot"))
                    .await
                    .unwrap();
                if decision.allowed() {
                    admitted += 1;
                } else if decision.source() == Source::Store && ends.load(Ordering::Relaxed) {
                    denied += 1;
                }
                tokio::task::yield_now().await;
            }
            admitted
        });
    }
    callers
}

#[test]
fn killed_connections_cost_no_decision_and_no_charge() {
    // A decision is tried once more on a fresh connection, which nothing disturbs.
    const KILL: &str = "SELECT count(pg_terminate_backend(pid)) FROM (SELECT pid FROM pg_stat_activity \
        WHERE application_name = 'killed' AND backend_start < clock_timestamp() - interval '500 ms' \
        AND state <> 'idle' LIMIT 1) AS one";
    block_on(async {
        let server = Server::shared();
        server.backend("killed").await;
        let url = format!("{}?application_name=killed", server.url());
        let backend = PostgresBackend::connect(&url).unwrap().table("killed");
        let policy = FailurePolicy::new(backend.deadline(PATIENCE)).deadline(PATIENCE);
        let limits = Limits::builder().limit("quota", Limit::quota(u32::MAX, Per::Month));
        let limiter = Limiter::new(limits.build().unwrap(), policy);
        let ends = Arc::new(AtomicBool::new(false));
        let mut callers = JoinSet::new();
        for _ in 0..16 {
            let (limiter, ends) = (limiter.clone(), Arc::clone(&ends));
            callers.spawn(async move {
                let mut admitted = 0;
                while !ends.load(Ordering::Relaxed) {
                    let hot = Transaction::new("quota", "hot");
                    let decision = limiter.spend(&hot).await.unwrap();
                    assert_eq!(decision.source(), Source::Store);
                    admitted += 1;
                }
                admitted
            });
        }
        let mut killed = 0;
        while killed < 6 {
            killed += server.number(KILL).await;
        }
        ends.store(true, Ordering::Relaxed);
        let admitted: u32 = callers.join_all().await.into_iter().sum();
        let left = limiter
            .peek(&Transaction::new("quota", "hot"))
            .await
            .unwrap();
        assert_eq!(left.remaining(), Some(u32::MAX - admitted));
    });
}

#[test]
fn callers_that_leave_are_charged_at_most_once() {
    block_on(async {
        let backend = Server::shared().backend("leavers").await;
        let limits = Limits::builder().limit("quota", Limit::quota(u32::MAX, Per::Month));
        let limiter = Limiter::new(limits.build().unwrap(), backend);
        let hot = Transaction::new("quota", "hot");
        let mut callers = JoinSet::new();
        for caller in 0..2000_u64 {
            let limiter = limiter.clone();
            callers.spawn(async move {
                let hot = Transaction::new("quota", "hot");
                let patience = Duration::from_micros(caller % 40 * 100);
                let decided = tokio::time::timeout(patience, limiter.spend(&hot)).await;
                u32::from(decided.is_ok())
            });
        }
        let answered: u32 = callers.join_all().await.into_iter().sum();
        let left = limiter.peek(&hot).await.unwrap().remaining().unwrap();
        let charged = u32::MAX - left;
        assert!(answered < 2000, "some have left");
        assert!(
            (answered..=2000).contains(&charged),
            "{answered}, {charged}"
        );
    });
}

#[test]
fn killed_servers_admit_within_the_bound() {
    block_on(async {
        let server = Server::start();
        for (table, is_durable, most) in
            [("durable", true, 2 * QUOTA), ("unlogged", false, 4 * QUOTA)]
        {
            let mut backend = server
                .backend_without_table(table)
                .deadline(Duration::from_secs(1));
            if is_durable {
                backend = backend.durable();
            }
            backend.create_table().await.unwrap();
            let limiter = limiter(FailurePolicy::new(backend));
            let ends = Arc::new(AtomicBool::new(false));
            let mut callers = spend_all(&limiter, &ends);
            for _ in 0..2 {
                until(&limiter, Source::Store).await;
                server.kill();
                until(&limiter, Source::Local).await;
                server.begin();
            }
            until(&limiter, Source::Store).await;
            ends.store(true, Ordering::Relaxed);
            let mut admitted = 0;
            while let Some(one) = callers.join_next().await {
                admitted += one.unwrap();
            }
            assert!((QUOTA..=most).contains(&admitted), "{table}: {admitted}");
        }
    });
}

#[test]
fn stopped_server_is_replaced_until_it_resumes() {
    block_on(async {
        let server = Server::start();
        let limiter = limiter(FailurePolicy::new(server.backend("stopped").await));
        until(&limiter, Source::Store).await;
        server.signal_all("STOP");
        until(&limiter, Source::Local).await;
        server.signal_all("CONT");
        until(&limiter, Source::Store).await;
    });
}

#[test]
fn server_that_refuses_connections_is_named() {
    block_on(async {
        let port = Port::claim();
        let url = format!("postgres://app:secret@127.0.0.1:{}/app", port.number());
        let backend = PostgresBackend::connect(&url).unwrap().deadline(PATIENCE);
        let error = backend.connected(PATIENCE).await.unwrap_err();
        let expected = format!(
            "PostgreSQL at 127.0.0.1:{} cannot be reached: it refuses connections",
            port.number()
        );
        for text in [text_of(&error), refused(backend).await] {
            assert!(text.contains(&expected), "{text}");
            assert!(!text.contains("secret"), "{text}");
        }
    });
}

#[test]
fn login_can_take_longer_than_the_deadline() {
    const DEADLINE: Duration = Duration::from_millis(200);
    block_on(async {
        let server = Server::shared();
        server.backend("slow_login").await;
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let to = server.port();
        tokio::spawn(async move {
            while let Ok((mut client, _)) = listener.accept().await {
                tokio::spawn(async move {
                    tokio::time::sleep(3 * DEADLINE).await;
                    let mut server = TcpStream::connect(("127.0.0.1", to)).await.unwrap();
                    let _ = copy_bidirectional(&mut client, &mut server).await;
                });
            }
        });
        let backend = PostgresBackend::connect(&url(port)).unwrap();
        let backend = backend.table("slow_login").deadline(DEADLINE);
        let limiter = limiter(backend);
        let once = Transaction::new("quota", "a");
        // A slow machine may need several attempts.
        while limiter.spend(&once).await.is_err() {}
    });
}

#[tokio::test]
async fn decision_waits_two_seconds_for_the_only_connection() {
    let server = Server::shared();
    server.backend("single").await;
    let pool = PgPoolOptions::new().max_connections(1);
    let pool = pool.connect(&server.url()).await.unwrap();
    let taken = pool.acquire().await.unwrap();
    let backend = || PostgresBackend::new(pool.clone()).table("single");
    assert!(format!("{:?}", backend()).contains("deadline: 50ms"));
    pause();
    let began = Instant::now();
    refused(backend()).await;
    assert_eq!(began.elapsed().as_millis() / 10, 200);
    resume();
    drop(taken);
    let limiter = limiter(backend().deadline(PATIENCE));
    // A slow machine may need several attempts.
    eventually_async("a decision has the connection", async || {
        let spent = limiter.spend(&Transaction::new("quota", "a")).await;
        spent.is_ok()
    })
    .await;
}

/// A file of the server cannot grow beyond some size, as if the disk were full.
#[test]
fn full_disk_refuses_and_is_asked_again() {
    block_on(async {
        let server = Server::with_small_files();
        let limiter = limiter(server.backend("filled").await);
        let mut refusals = 0;
        for round in 0..100_000_u32 {
            let id = format!("{round}-{}", "x".repeat(100));
            let ids: Vec<_> = (0..64).map(|n| format!("{n}-{id}")).collect();
            let batch: Vec<_> = ids.iter().map(|id| Transaction::new("quota", id)).collect();
            if let Err(error) = limiter.spend_batch(&batch).await {
                let text = text_of(&error);
                assert!(text.contains("nothing was charged"), "{text}");
                refusals += 1;
                break;
            }
        }
        assert_eq!(refusals, 1);
        server.sql("TRUNCATE filled").await;
        let decision = limiter.spend(&Transaction::new("quota", "after")).await;
        assert!(decision.unwrap().allowed());
    });
}

#[test]
fn locks_are_waited_for_until_the_deadline() {
    block_on(async {
        let server = Server::shared();
        let short = Duration::from_millis(100);
        server.backend("locked").await;
        let mut holder = server.connection().await;
        for lock in ["LOCK TABLE locked", "SELECT key FROM locked FOR UPDATE"] {
            sqlx::raw_sql(&format!("BEGIN; {lock}"))
                .execute(&mut holder)
                .await
                .unwrap();
            let text = refused(server.backend_without_table("locked").deadline(short)).await;
            assert!(text.contains("deadline"), "{text}");
            sqlx::raw_sql("ROLLBACK")
                .execute(&mut holder)
                .await
                .unwrap();
            let limiter = limiter(server.backend_without_table("locked"));
            let decision = limiter.spend(&Transaction::new("quota", "a")).await;
            assert!(decision.unwrap().allowed());
        }
    });
}

#[test]
fn missing_rights_and_tables_are_named_with_their_remedy() {
    block_on(async {
        let server = Server::shared();
        let text = refused(server.backend_without_table("missing")).await;
        assert!(text.contains("create the table"), "{text}");
        let error = server
            .backend_without_table("missing")
            .connected(PATIENCE)
            .await
            .unwrap_err();
        assert!(error.to_string().contains("create the table"), "{error}");
        let unlogged = server.backend("other_kind").await;
        unlogged.connected(PATIENCE).await.unwrap();
        let error = unlogged.durable().connected(PATIENCE).await.unwrap_err();
        assert!(error.to_string().contains("is logged where"), "{error}");
        server
            .sql("CREATE ROLE guest LOGIN; GRANT SELECT ON other_kind TO guest")
            .await;
        let url = server.url().replace("postgres@", "guest@");
        let guest = PostgresBackend::connect(&url)
            .unwrap()
            .table("other_kind")
            .deadline(PATIENCE);
        let text = refused(guest).await;
        assert!(text.contains("grant the role SELECT, INSERT"), "{text}");
        let nobody = server.url().replace("postgres@", "nobody@");
        let nobody = PostgresBackend::connect(&nobody)
            .unwrap()
            .deadline(PATIENCE);
        let text = refused(nobody).await;
        assert!(text.contains("check the user"), "{text}");
        server
            .sql("CREATE TABLE foreign_table (key text PRIMARY KEY)")
            .await;
        let text = refused(server.backend_without_table("foreign_table")).await;
        assert!(text.contains("other columns"), "{text}");
    });
}

#[test]
fn each_right_to_decide_is_needed_and_they_suffice() {
    const GRANT: &str = "GRANT SELECT, INSERT, UPDATE, DELETE ON office.buckets TO clerk";
    block_on(async {
        let server = Server::shared();
        let create = "CREATE ROLE clerk LOGIN; CREATE SCHEMA office";
        server.sql(create).await;
        server.backend("office.buckets").await;
        server.sql(GRANT).await;
        let url = server.url().replace("postgres@", "clerk@");
        let clerk = PostgresBackend::connect(&url).unwrap();
        let clerk = clerk.table("office.buckets").deadline(PATIENCE);
        clerk.connected(PATIENCE).await.unwrap_err();
        server.sql("GRANT USAGE ON SCHEMA office TO clerk").await;
        for right in ["SELECT", "INSERT", "UPDATE", "DELETE"] {
            let revoke = format!("REVOKE {right} ON office.buckets FROM clerk");
            server.sql(&revoke).await;
            let error = clerk.connected(PATIENCE).await.expect_err(right);
            assert!(text_of(&error).contains("permission denied"), "{error:?}");
            server.sql(GRANT).await;
        }
        clerk.connected(PATIENCE).await.unwrap();
        let decision = limiter(clerk).spend(&Transaction::new("quota", "a")).await;
        assert!(decision.unwrap().allowed());
    });
}

#[test]
fn damaged_bucket_is_an_error_of_its_own() {
    block_on(async {
        let server = Server::shared();
        let limiter = Arc::new(limiter(server.backend("damaged").await));
        limiter
            .spend(&Transaction::new("quota", "bad"))
            .await
            .unwrap();
        server
            .sql("UPDATE damaged SET state = 'x' WHERE id = 'bad'")
            .await;
        let (good, bad) = (
            Transaction::new("quota", "good"),
            Transaction::new("quota", "bad"),
        );
        let (good, bad) = tokio::join!(limiter.spend(&good), limiter.spend(&bad));
        assert!(good.unwrap().allowed());
        let text = text_of(&bad.unwrap_err());
        assert!(text.contains("delete the bucket"), "{text}");
    });
}

#[test]
fn standby_refuses_until_it_is_promoted() {
    block_on(async {
        let primary = Server::start();
        let logged = primary.backend_without_table("tollgate").durable();
        logged.create_table().await.unwrap();
        let spent = limiter(logged);
        let once = Transaction::new("quota", "a");
        assert_eq!(
            spent.spend(&once).await.unwrap().remaining(),
            Some(QUOTA - 1)
        );
        let standby = Server::standby_of(&primary);
        let text = refused(standby.backend_without_table("tollgate").durable()).await;
        assert!(text.contains("connect to the primary"), "{text}");
        let limiter = limiter(standby.backend_without_table("tollgate").durable());
        limiter.spend(&once).await.unwrap_err();
        primary.kill();
        standby.promote();
        let decision = loop {
            if let Ok(decision) = limiter.spend(&once).await {
                break decision;
            }
        };
        assert_eq!(decision.remaining(), Some(QUOTA - 2));
    });
}

#[test]
fn expired_rows_are_deleted_and_others_stay() {
    block_on(async {
        let server = Server::shared();
        let limits = Limits::builder()
            .limit("short", Limit::per(1, Duration::from_millis(1)))
            .limit("long", Limit::per_hour(1));
        let limiter = Limiter::new(limits.build().unwrap(), server.backend("swept").await);
        for n in 0..500 {
            let id = n.to_string();
            let batch = [
                Transaction::new("short", &id),
                Transaction::new("long", &id),
            ];
            assert!(limiter.spend_batch(&batch).await.unwrap().allowed());
        }
        loop {
            limiter.peek(&Transaction::new("long", "0")).await.unwrap();
            let left = server
                .number("SELECT count(*) FROM swept WHERE key < 'long'")
                .await
                + server
                    .number("SELECT count(*) FROM swept WHERE key >= 'short'")
                    .await;
            if left == 0 {
                break;
            }
        }
        assert_eq!(server.number("SELECT count(*) FROM swept").await, 500);
    });
}
