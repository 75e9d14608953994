//! `tollgate show` and `tollgate reset`, on servers of Redis and PostgreSQL.

use std::process::{Command, Output};

use serde_json::{Value, json};
use tollgate::{Limiter, Limits, RedisBackend, Transaction};
use tollgate_postgres::PostgresBackend;

use crate::{
    eventually::PATIENCE,
    postgres,
    program::{expect_refusal, file, json_of, run, run_with, stderr, stdout},
    redis_support::{Port, Server},
};

const LIMITS: &str = "orders: {number: 6, id: regId, burst: 5, count: 1, period: 1h}\n";

async fn spend(server: &Server, times: usize) {
    let limits = Limits::builder().defaults_text("limits.yml", LIMITS);
    let backend = RedisBackend::builder(server.url()).timeout(PATIENCE);
    let limiter = Limiter::new(limits.build().unwrap(), backend.build().unwrap());
    for _ in 0..times {
        assert!(
            limiter
                .spend(&Transaction::new("orders", "42"))
                .await
                .unwrap()
                .allowed()
        );
    }
}

/// Runs the command on the bucket of a client.
fn command(server: &Server, name: &str, more: &[&str], input: &[u8]) -> Output {
    let (url, limits) = (server.url(), file("yml", LIMITS));
    let args = [name, "--redis", &url, "--limits", &limits];
    run_with(&[&args, more, &["orders", "42"]].concat(), input)
}

fn remaining(server: &Server) -> Value {
    json_of(&command(server, "show", &["--json"], b""))["remaining"].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn bucket_is_shown_with_its_figures() {
    let server = Server::start();
    spend(&server, 3).await;
    let report = json_of(&command(&server, "show", &["--json"], b""));
    assert_eq!(report["client"]["key"], "6:42");
    assert_eq!(
        [
            &report["remaining"],
            &report["allowed"],
            &report["next_after_us"]
        ],
        [&json!(2), &json!(true), &json!(0)]
    );
    let output = command(&server, "show", &[], b"");
    let text = stdout(&output);
    for part in [
        "orders 42\n",
        "from: the default",
        "limit: 1 per 1h0m0s, 5 at once",
        "at most: 5 in any 1h0m0s",
        "bucket: 6:42",
        "remaining: 2",
        "next request: now",
        "full again: in ",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn client_in_a_range_is_shown_with_its_own_bucket() {
    let server = Server::start();
    let limits = file(
        "yml",
        "a: {id: ipAddress, burst: 1, count: 1, period: 1h}\n",
    );
    let ranges = file(
        "yml",
        "- a: {burst: 3, count: 1, period: 1h, ids: [198.51.100.0/24]}\n",
    );
    let files = ["--limits", &limits, "--overrides", &ranges];
    let redis = ["show", "--json", "--redis", &server.url()];
    let report = json_of(&run(&[&redis[..], &files, &["a", "198.51.100.7"]].concat()));
    assert_eq!(report["client"]["override"]["id"], "198.51.100.0/24");
    assert_eq!(report["client"]["key"], "a:198.51.100.7");
    assert_eq!(report["remaining"], 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn bucket_is_reset_after_asking() {
    let server = Server::start();
    spend(&server, 3).await;
    for answer in [b"".as_slice(), b"\n", b"n\n", b"yesterday\n"] {
        let output = command(&server, "reset", &[], answer);
        let question = "reset 6:42, so that `42` has its whole limit again";
        expect_refusal(&output, 1, &[question, "nothing was reset"]);
        assert_eq!(remaining(&server), 2);
    }
    let output = command(&server, "reset", &[], b"y\n");
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(stdout(&output), "6:42 is full again\n");
    assert_eq!(remaining(&server), 5);
    spend(&server, 1).await;
    let report = json_of(&command(&server, "reset", &["--yes", "--json"], b""));
    assert_eq!(report, json!({"key": "6:42", "reset": true}));
    assert_eq!(remaining(&server), 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn bucket_in_postgresql_is_shown_and_reset() {
    let server = postgres::Server::start();
    let postgres = PostgresBackend::connect(&server.url()).unwrap();
    postgres.create_table().await.unwrap();
    let limits = Limits::builder().defaults_text("limits.yml", LIMITS);
    let limiter = Limiter::new(limits.build().unwrap(), postgres.deadline(PATIENCE));
    let spent = limiter.spend(&Transaction::new("orders", "42")).await;
    assert!(spent.unwrap().allowed());
    let url = server.url();
    let limits = file("yml", LIMITS);
    let command = |name, more: &[&str]| {
        let args = [name, "--json", "--store", &url, "--limits", &limits];
        json_of(&run(&[&args, more, &["orders", "42"]].concat()))
    };
    assert_eq!(command("show", &[])["remaining"], 4);
    assert_eq!(command("reset", &["--yes"])["reset"], true);
    assert_eq!(command("show", &[])["remaining"], 5);
}

#[test]
fn reset_says_that_there_is_no_bucket_and_escapes_ids() {
    let limits = file("yml", "blocked: {blocked: true}\nnone: {}\nsome: 1/s\n");
    let args = |limit, id| run(&["reset", "--limits", &limits, limit, id]);
    for (limit, is) in [("blocked", "blocked"), ("none", "not limited")] {
        let text = format!(
            "`a\\u{{1b}}b` is {is} by `{limit}`, which has no bucket for it: nothing was reset\n"
        );
        expect_refusal(&args(limit, "a\u{1b}b"), 1, &[&text]);
    }
    expect_refusal(
        &args("some", "a\u{1b}b"),
        1,
        &["reset some:a\\u{1b}b, so that `a\\u{1b}b` has"],
    );
}

#[test]
fn store_that_does_not_answer_is_a_failure() {
    let limits = file("yml", LIMITS);
    let args = |url, limit, id| run(&["show", "--redis", url, "--limits", &limits, limit, id]);
    // Nobody listens there.
    for url in ["redis://127.0.0.1:1", "redis://alice:secret@127.0.0.1:1/2"] {
        let output = args(url, "orders", "42");
        expect_refusal(&output, 2, &["tollgate: Redis at ", "127.0.0.1:1"]);
        assert!(!stderr(&output).contains("secret"), "{}", stderr(&output));
    }
    let url = "postgres://alice:secret@127.0.0.1:1/orders";
    let output = args(url, "orders", "42");
    let texts = [
        "tollgate: PostgreSQL at 127.0.0.1:1/orders: ",
        "it refuses connections",
    ];
    expect_refusal(&output, 2, &texts);
    assert!(!stderr(&output).contains("secret"), "{}", stderr(&output));
    expect_refusal(
        &args("http://127.0.0.1:1", "orders", "42"),
        2,
        &["tollgate: "],
    );
    expect_refusal(
        &args("redis://127.0.0.1:1", "order", "42"),
        2,
        &["unknown limit `order`: known are orders"],
    );
    expect_refusal(
        &args("redis://127.0.0.1:1", "orders", "x"),
        2,
        &["`x` is not an id in the format regId"],
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn private_authority_is_the_one_in_the_environment() {
    let file_of = |name| format!("{}/../tests/data/tls/{name}", env!("CARGO_MANIFEST_DIR"));
    let authority = file_of("named.pem");
    let key = file_of("named.key");
    let port = Port::claim();
    let number = port.number().to_string();
    let server = Server::start_with(&[
        "--tls-port",
        &number,
        "--tls-auth-clients",
        "no",
        "--tls-ca-cert-file",
        &authority,
        "--tls-cert-file",
        &authority,
        "--tls-key-file",
        &key,
    ]);
    spend(&server, 2).await;
    let url = format!("rediss://localhost:{number}");
    let limits = file("yml", LIMITS);
    let mut show = Command::new(env!("CARGO_BIN_EXE_tollgate"));
    show.args(["show", "--json", "--redis", &url, "--limits", &limits]);
    show.args(["orders", "42"]).env("SSL_CERT_FILE", &authority);
    assert_eq!(json_of(&show.output().unwrap())["remaining"], 3);
}
