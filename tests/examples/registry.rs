//! The example `registry`: the limiter of GitLab's container registry, on a real Redis.

use std::{
    fs,
    time::{Duration, Instant},
};

use serde_json::Value;

use crate::{
    expect_refusal,
    programs::{self, Program, Response, file},
    redis_support::{Cluster, Sentinels, Server},
};

const BURST: usize = 100;

/// The time in which a token comes back.
const INTERVAL: Duration = Duration::from_secs(1);

/// As the registry's documentation has it.
const DENIAL: &str = r#"{
   "errors": [
       {
           "code": "TOOMANYREQUESTS",
           "message": "too many requests",
           "detail": {
               "limiter": "ip",
               "entity": "172.16.123.1"
           }
       }
   ]
}"#;

fn enabled(addr: &str) -> String {
    let text = format!("redis:\n  ratelimiter:\n    enabled: true\n    addr: {addr}\n");
    file("registry.yml", &text)
}

fn start(config: &str) -> (Program, programs::Server) {
    let program = Program::start("registry", &[config, "--listen", "127.0.0.1:0"]);
    let server = program.next_server();
    (program, server)
}

/// Sends requests until one is denied, which is the last. Before it, the burst passes, and the tokens that come back in the meantime.
fn burst(server: &programs::Server, headers: &[(&str, &str)]) -> Vec<Response> {
    let start = Instant::now();
    let mut responses = server.get_often(BURST + 1, "/v2/", headers);
    while responses.last().expect("there are some").status != 429 {
        responses.push(server.get("/v2/", headers));
    }
    let back = start.elapsed().as_secs() / INTERVAL.as_secs();
    let most = BURST + usize::try_from(back).expect("it is few");
    let passed = responses.len() - 1;
    assert!((BURST..=most).contains(&passed), "{passed} of {most}");
    responses
}

/// Returns the number of connections so far, including this one.
fn connections(redis: &Server) -> u64 {
    let count = redis.info("total_connections_received");
    count.parse().expect("a number")
}

#[test]
fn hundred_requests_pass_and_the_next_gets_the_error_of_the_registry() {
    let redis = Server::start();
    let (_program, server) = start(&enabled(&redis.addr().to_string()));
    let mut responses = burst(&server, &[("x-forwarded-for", "10.0.0.1, 172.16.123.1")]);

    let denied = responses.pop().expect("it is the last");
    for response in &responses {
        assert_eq!((response.status, &*response.body), (200, "{}"));
    }
    assert_eq!(denied.status, 429);
    let document: Value = serde_json::from_str(DENIAL).expect("it is JSON");
    // The id of the refusal is the only difference to the document.
    let mut body = denied.json();
    let detail = body["errors"][0]["detail"].as_object_mut();
    detail
        .expect("it is an object")
        .remove("refusal-id")
        .expect("there is one");
    assert_eq!(body, document);
    assert_eq!(denied.header("content-type"), Some("application/json"));
    assert_eq!(denied.header("retry-after"), Some("1"));

    let key = "registry:api:{rate-limit:ip:172.16.123.1}";
    assert_eq!(redis.keys(), [key]);
    assert_eq!(redis.query::<String>(&["TYPE", key]), "string");
    // All spent tokens come back within 100 seconds, some of which may have passed.
    let ttl: i64 = redis.query(&["PTTL", key]);
    assert!((1..=100_000).contains(&ttl), "{ttl}");
    // Unknown repositories and paths count too.
    for (path, status) in [
        ("/v2/_catalog", 200),
        ("/v2/nobody/tags/list", 404),
        ("/v1/", 404),
    ] {
        redis.exec(&["FLUSHALL"]);
        assert_eq!(server.get(path, &[]).status, status, "{path}");
        assert_eq!(redis.keys().len(), 1, "{path}");
    }
}

#[test]
fn password_and_database_are_used() {
    let redis = Server::start_with(&["--requirepass", "p@ss:/ word"]);
    let addr = redis.addr();
    let text = format!(
        "redis:\n  ratelimiter: {{enabled: true, addr: '{addr}', password: 'p@ss:/ word', db: 3}}"
    );
    let (_program, server) = start(&file("registry.yml", &text));
    assert_eq!(server.get("/v2/", &[]).status, 200);
    assert!(redis.keys().is_empty());
    assert!(
        redis.info("db3").starts_with("keys=1"),
        "{}",
        redis.info("db3")
    );
}

#[test]
fn several_addresses_mean_a_cluster() {
    let cluster = Cluster::start();
    let addresses = cluster.nodes().iter().map(|node| node.addr().to_string());
    let addresses: Vec<_> = addresses.collect();
    let (_program, server) = start(&enabled(&addresses.join(", ")));
    for host in 1..=3 {
        let address = format!("192.0.2.{host}");
        let answer = server.get("/v2/", &[("x-real-ip", &address)]);
        assert_eq!(answer.status, 200);
        let key = format!("registry:api:{{rate-limit:ip:192.0.2.{host}}}");
        let owner = cluster.owner(cluster.slot_of(&key));
        assert!(owner.keys().contains(&key));
    }
}

#[test]
fn master_is_found_by_sentinels() {
    let sentinels = Sentinels::start();
    let url = sentinels.url();
    let (_, rest) = url.split_once("://").expect("a URL");
    let addresses = rest.replace("?sentinelServiceName=tollgate&node=", ",");
    let addresses = addresses.replace("&node=", ",");
    let text = format!(
        "redis:\n  ratelimiter:\n    enabled: true\n    mainname: tollgate\n    addr: {addresses}\n"
    );
    let (_program, server) = start(&file("registry.yml", &text));
    assert_eq!(server.get("/v2/", &[]).status, 200);
    assert_eq!(sentinels.master().keys().len(), 1);
}

#[test]
fn nothing_is_limited_or_kept_unless_it_is_enabled() {
    let redis = Server::start();
    let before = connections(&redis);
    let addr = redis.addr();
    let disabled = [
        format!("redis:\n  ratelimiter: {{enabled: false, addr: '{addr}'}}"),
        format!("redis:\n  ratelimiter: {{addr: '{addr}'}}"),
        format!("version: 0.1\nredis:\n  addr: {addr}\n  cache: {{enabled: true}}"),
        "version: 0.1\nstorage:\n  filesystem:\n    rootdirectory: /var/lib/registry".to_owned(),
    ];
    for text in &disabled {
        let (_program, server) = start(&file("registry.yml", text));
        for response in server.get_often(2 * BURST, "/v2/", &[]) {
            assert_eq!(response.status, 200, "{text}");
            assert_eq!(response.header("ratelimit"), None);
        }
    }
    assert!(redis.keys().is_empty());
    // Ours for the keys, and the one that asks.
    assert_eq!(connections(&redis), before + 2);
}

#[test]
fn bad_files_exit_2_and_say_what_to_change() {
    let cases = [
        ("redis:\n  ratelimiter: {enabled: true}", "has no `addr`"),
        (
            "redis:\n  ratelimiter: {enabled: true, addr: localhost}",
            "`localhost` is no address",
        ),
        (
            "redis:\n  ratelimiter: {enabled: true, addr: 'a:1, b'}",
            "`b` is no address",
        ),
        (
            "redis:\n  ratelimiter: {enabled: true, addr: '::1:6379'}",
            "`::1:6379` is no address",
        ),
        (
            "redis:\n  ratelimiter: {enable: true}",
            "unknown field `enable`",
        ),
        ("redis:\n  ratelimiter: {enabled: perhaps}", "line 2"),
        ("redis: [", "line 1"),
    ];
    for (text, problem) in cases {
        let path = file("registry.yml", text);
        let start = format!("registry: {path}: ");
        expect_refusal("registry", &[&path], &[&start, problem]);
    }
    let missing = "/no/such/file.yml";
    let reason = "/no/such/file.yml: No such file";
    expect_refusal("registry", &[missing], &[reason]);
}

#[test]
fn address_or_redis_that_does_not_work_ends_the_start() {
    let good = file("registry.yml", "redis: {}");
    let listens = [&*good, "--listen", "here"];
    expect_refusal("registry", &listens, &["cannot listen on `here`"]);
    let redis = Server::start_with(&["--requirepass", "secret"]);
    let path = enabled(&redis.addr().to_string());
    expect_refusal("registry", &[&path], &["cannot connect to Redis"]);
}

#[test]
fn registry_starts_with_the_example_file() {
    let text = fs::read_to_string("examples/config/registry.yml").expect("it is there");
    let redis = Server::start();
    let text = text.replace("127.0.0.1:6379", &redis.addr().to_string());
    let (_program, server) = start(&file("registry.yml", &text));
    assert_eq!(server.get("/v2/", &[]).status, 200);
    assert_eq!(redis.keys().len(), 1);
}
