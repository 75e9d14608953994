//! The example `production`: it limits the client that the proxy names, reloads its file, outlives its Redis, and ends in order.

use crate::{
    eventually::eventually,
    programs::{Program, file, replace},
    redis_support::Server,
};

const LIMITS: &str = "
requests: {burst: 3, count: 1, period: 10h}
writes: {burst: 1, count: 1, period: 10h}
";

#[test]
fn limits_follow_the_proxy_the_file_and_the_store() {
    let redis = Server::start();
    let limits = file("production.yml", LIMITS);
    let url = redis.url();
    let any = "127.0.0.1:0";
    let args = [
        "--listen",
        any,
        "--metrics",
        any,
        "--redis",
        &url,
        "--limits",
        &limits,
        "--proxies",
        "127.0.0.1",
    ];
    let program = Program::start("production", &args);
    let server = program.next_server();
    let metrics = program.next_server_after("metrics on http://");
    let status = |method: &str, client: &str| {
        let from = ("x-forwarded-for", client);
        server.send(method, "/", &[from], "").status
    };

    // Until Redis answers, the program decides alone.
    eventually("Redis decides", || {
        status("GET", "192.0.2.9");
        !redis.keys().is_empty()
    });
    let writes = ["POST", "POST", "GET", "GET", "GET"].map(|method| status(method, "192.0.2.1"));
    assert_eq!(writes, [200, 429, 200, 200, 429]);
    assert_eq!(status("GET", "192.0.2.2"), 200);
    let scraped = metrics.get("/metrics", &[]).body;
    assert!(
        scraped.contains("rate_limiting_decision_duration_seconds_count"),
        "{scraped}"
    );

    replace(&limits, &LIMITS.replace("burst: 3", "burst: 50"));
    program.signal("HUP");
    eventually("the file is read again", || {
        let answer = server.get("/", &[("x-forwarded-for", "192.0.2.4")]);
        let policy = answer.header("ratelimit-policy");
        policy.is_some_and(|policy| policy.contains("q=50"))
    });
    assert_eq!(
        status("GET", "192.0.2.1"),
        200,
        "the larger burst is in force"
    );

    redis.kill();
    assert_eq!(status("GET", "192.0.2.5"), 200, "it decides alone");
    redis.restart();
    program.signal("TERM");
    let (code, _) = program.finish();
    assert_eq!(code, Some(0));
}
