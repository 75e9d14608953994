//! `tollgate replay` says what a server would have done.

use std::collections::BTreeSet;

use serde_json::json;
use tollgate::{ClientIp, Limits, RateLimitLayer, Rule, Transaction, limit::Language};

use crate::{
    program::{expect_refusal, file, json, json_of, run, run_with, stderr, stdout},
    server::{Refusals, limiter, refusals, set},
    traffic::{Request, day, log, request},
};

const LIMIT: &str = "requests: {id: ipAddress, burst: 20, count: 1, period: 3s}\n";

/// The id of `ClientIp`, written down independently.
fn id(request: &Request) -> String {
    match request.ip {
        std::net::IpAddr::V4(ip) => ip.to_string(),
        std::net::IpAddr::V6(ip) => {
            let [a, b, c, d, ..] = ip.segments();
            std::net::Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).to_string()
        }
    }
}

fn clients(requests: &[Request]) -> usize {
    requests.iter().map(id).collect::<BTreeSet<_>>().len()
}

#[test]
fn json_has_its_documented_shape() {
    let requests: Vec<_> = [0, 0, 1, 2]
        .map(|at| request(at, "203.0.113.7", "/"))
        .into_iter()
        .chain([request(1, "203.0.113.8", "/")])
        .collect();
    let limits = file("yml", "requests: {burst: 1, count: 1, period: 1h}\n");
    let log = file("log", log(&requests) + "nonsense\n");
    let output = run(&["replay", "--limits", &limits, "--json", &log]);
    assert_eq!(
        stdout(&output),
        "{\"lines\":6,\"unreadable\":1,\"limits\":{\"requests\":{\"requests\":5,\"clients\":2,\"denied\":3,\
         \"clients_denied\":1,\"most_denied\":[{\"id\":\"203.0.113.7\",\"denied\":3,\
         \"first\":\"2026-11-01T00:00:00Z\"}]}}}\n"
    );
    let told = stderr(&output);
    assert!(
        told.contains(&format!("{log}:6: ")) && told.contains("nonsense"),
        "{told}"
    );
}

#[test]
fn replay_says_the_same_as_a_server() {
    let requests = day(120, 7);
    for values in [
        "burst: 20, count: 1, period: 3s",
        "limit: 20, window: 1m",
        "quota: 400, per: hour",
    ] {
        let text = format!("requests: {{id: ipAddress, {values}}}\n");
        let files = Limits::builder().defaults_text(Language::Yaml, &text);
        let (limiter, clock) = limiter(files.build().unwrap());
        let rule = Rule::new("requests", ClientIp::peer());
        let layer = RateLimitLayer::with_limiter(limiter).rule(rule);
        let server = refusals(&layer, &clock, &requests, id);
        assert!(server.denied.len() >= 3, "{values}");

        let (limits, log) = (file("yml", &text), file("log", log(&requests)));
        let told = json(&["replay", "--limits", &limits, "--json", &log]);
        let expected = server.as_json(clients(&requests));
        assert_eq!(
            told,
            json!({"lines": requests.len(), "unreadable": 0, "limits": {"requests": expected}}),
            "{values}"
        );
    }
}

const TWO: &str = "
short: {id: ipAddress, burst: 3, count: 3, period: 1s}
long: {id: ipAddress, limit: 200, window: 1h}
";

#[test]
fn several_limits_are_charged_together_or_not_at_all() {
    let requests = day(40, 11);
    let limits = Limits::builder().defaults_text(Language::Yaml, TWO);
    let (limiter, clock) = limiter(limits.build().unwrap());
    let mut expected = [Refusals::default(), Refusals::default()];
    for request in &requests {
        set(&clock, request);
        let id = id(request);
        let batch = ["short", "long"].map(|name| Transaction::new(name, &id));
        let decided = limiter.try_spend_batch(&batch).unwrap().unwrap();
        for (refusals, decision) in expected.iter_mut().zip(decided.members()) {
            refusals.requests += 1;
            if !decision.allowed() {
                let denied = refusals.denied.entry(id.clone());
                denied.or_insert((0, request.at)).0 += 1;
            }
        }
    }
    let (limits, log) = (file("yml", TWO), file("log", log(&requests)));
    let told = json(&["replay", "--limits", &limits, "--json", &log]);
    let clients = clients(&requests);
    assert_eq!(told["limits"]["short"], expected[0].as_json(clients));
    assert_eq!(told["limits"]["long"], expected[1].as_json(clients));
    assert!(expected.iter().all(|refusals| refusals.total() > 100));
}

#[test]
fn overrides_apply() {
    let requests: Vec<_> = (0..30)
        .flat_map(|i| {
            [
                request(i / 10, "203.0.113.7", "/"),
                request(i / 10, "203.0.113.8", "/"),
            ]
        })
        .collect();
    let overrides = file("yml", "- requests: {unlimited: true, ids: [203.0.113.7]}\n");
    let (limits, log) = (file("yml", LIMIT), file("log", log(&requests)));
    let args = [
        "replay",
        "--json",
        "--limits",
        &limits,
        "--overrides",
        &overrides,
        &log,
    ];
    let told = &json(&args)["limits"]["requests"];
    assert_eq!(
        (&told["requests"], &told["clients"]),
        (&json!(60), &json!(2))
    );
    assert_eq!(
        (&told["denied"], &told["most_denied"][0]["id"]),
        (&json!(10), &json!("203.0.113.8"))
    );
}

#[test]
fn addresses_are_grouped_as_by_client_ip() {
    let requests: Vec<_> = [
        "2001:db8:1:2::1",
        "2001:db8:1:2:ffff::9",
        "2001:db8:1:3::1",
        "::ffff:192.0.2.1",
        "192.0.2.1",
    ]
    .map(|ip| request(0, ip, "/"))
    .into();
    let log = file("log", log(&requests));
    let limits = file("yml", "requests: {burst: 1, count: 1, period: 1h}\n");
    let by = |key: &str| {
        json(&["replay", "--limits", &limits, "--key", key, "--json", &log])["limits"]["requests"]
            .clone()
    };
    let ip = by("ip");
    assert_eq!(
        (&ip["requests"], &ip["clients"], &ip["denied"]),
        (&json!(5), &json!(3), &json!(2))
    );
    let ids: BTreeSet<_> = ip["most_denied"]
        .as_array()
        .unwrap()
        .iter()
        .map(|client| client["id"].as_str().unwrap())
        .collect();
    assert_eq!(ids, BTreeSet::from(["192.0.2.1", "2001:db8:1:2::"]));
    let range = by("/48");
    assert_eq!(
        (&range["requests"], &range["clients"], &range["denied"]),
        (&json!(3), &json!(1), &json!(2))
    );
    assert_eq!(range["most_denied"][0]["id"], "2001:db8:1::/48");
    let all = by("everyone");
    assert_eq!(
        (&all["requests"], &all["clients"], &all["denied"]),
        (&json!(5), &json!(1), &json!(4))
    );
}

#[test]
fn lines_out_of_order_are_put_in_order() {
    let mut requests = day(20, 3);
    let limits = file("yml", LIMIT);
    let sorted = file("log", log(&requests));
    let expected = json(&["replay", "--limits", &limits, "--json", &sorted]);
    // Within a block, the later requests come first.
    for block in requests.chunks_mut(500) {
        block.reverse();
    }
    // Requests of one second are equal, but for their clients, whose buckets are their own.
    let shuffled = file("log", log(&requests));
    assert_eq!(
        json(&["replay", "--limits", &limits, "--json", &shuffled]),
        expected
    );
}

#[test]
fn logs_of_several_servers_are_merged_by_time() {
    let requests = day(20, 5);
    let limits = file("yml", LIMIT);
    let whole = file("log", log(&requests));
    let expected = json(&["replay", "--limits", &limits, "--json", &whole]);
    let mut numbers = crate::traffic::Numbers(9);
    let (one, other): (Vec<_>, Vec<_>) = requests
        .iter()
        .cloned()
        .partition(|_| numbers.below(2) == 0);
    let (one, other) = (file("log", log(&one)), file("log", log(&other)));
    assert_eq!(
        json(&["replay", "--limits", &limits, "--json", &other, &one]),
        expected
    );
    // Rotated logs, the newer one first.
    let (first, second) = requests.split_at(requests.len() / 2);
    let (first, second) = (file("log", log(first)), file("log", log(second)));
    assert_eq!(
        json(&["replay", "--limits", &limits, "--json", &second, &first]),
        expected
    );
}

#[test]
fn request_that_is_far_too_late_counts_at_the_latest_instant() {
    let mut requests: Vec<_> = (0..20_000)
        .map(|i| request(i / 2, "203.0.113.7", "/"))
        .collect();
    requests.push(request(5, "203.0.113.8", "/"));
    let limits = file("yml", LIMIT);
    let output = run_with(
        &["replay", "--limits", &limits, "--json"],
        log(&requests).as_bytes(),
    );
    assert_eq!(json_of(&output)["limits"]["requests"]["clients"], 2);
    assert!(
        stderr(&output).starts_with("requests far out of order, ")
            && stderr(&output).ends_with(": 1\n"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn standard_input_is_read() {
    let requests = day(10, 2);
    let (limits, text) = (file("yml", LIMIT), log(&requests));
    let expected = json(&["replay", "--limits", &limits, "--json", &file("log", &text)]);
    for more in [&[][..], &["-"]] {
        let args = [&["replay", "--limits", &limits, "--json"], more].concat();
        assert_eq!(json_of(&run_with(&args, text.as_bytes())), expected);
    }
}

#[test]
fn table_tells_waits_and_lines() {
    let requests: Vec<_> = (0..10).map(|_| request(0, "203.0.113.7", "/")).collect();
    let limits = file("yml", "requests: {burst: 4, count: 1, period: 1s}\n");
    let log = file("log", log(&requests));
    let output = run(&["replay", "--limits", &limits, "--max-wait", "3s", &log]);
    let text = stdout(&output);
    assert_eq!(output.status.code(), Some(0));
    for part in [
        "10 lines, 0 of them unreadable",
        "1 per 1s, 4 at once",
        "6 (60.00 %)",
        "1 (100.00 %)",
        "if requests waited in line for up to 3s, 3 would be denied and 3 delayed, by at most 3s",
        "203.0.113.7",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn shadow_mode_counts_and_blocked_denies() {
    let requests = [
        request(0, "203.0.113.7", "/"),
        request(0, "203.0.113.7", "/"),
    ];
    let limits = file(
        "yml",
        "a: {burst: 1, count: 1, period: 1s, shadow: true}\nb: {blocked: true}\nc: {concurrent: 4}\n",
    );
    let output = run(&[
        "replay",
        "--limits",
        &limits,
        "--json",
        &file("log", log(&requests)),
    ]);
    let told = &json_of(&output)["limits"];
    assert_eq!(told["b"]["denied"], 2);
    assert_eq!(told["c"], json!(null));
    assert!(stderr(&output).contains("limit `c` counts what runs at once"));
}

#[test]
fn bad_arguments_and_files_have_exit_code_2() {
    let (limits, log) = (file("yml", LIMIT), file("log", ""));
    let bad = file("yml", "requests: {burst: 0, count: 1, period: 1s}\n");
    let cases: [(&[&str], &str); 9] = [
        (&["replay", &log], "--limits <FILE>"),
        (
            &["replay", "--limits", "/nowhere.yml", &log],
            "/nowhere.yml",
        ),
        (&["replay", "--limits", &bad, &log], "burst"),
        (
            &["replay", "--limits", &limits, "/nowhere.log"],
            "/nowhere.log: cannot read it: ",
        ),
        (&["replay", "--limits", &limits, "/"], "/: cannot read it: "),
        (
            &["replay", "--limits", &limits, "--key", "", &log],
            "the key ``",
        ),
        (
            &["replay", "--limits", &limits, "--key", "/47", &log],
            "the key `/47`",
        ),
        (
            &["replay", "--limits", &limits, "--max-wait", "7", &log],
            "--max-wait",
        ),
        (&["replays"], "unrecognized subcommand"),
    ];
    for (args, reason) in cases {
        expect_refusal(&run(args), 2, &[reason]);
    }
    expect_refusal(&run::<&str>(&[]), 2, &["Usage"]);
}

#[test]
fn a_missing_file_of_limits_is_told_once() {
    let output = run(&["replay", "--limits", "/nowhere.yml", &file("log", "")]);
    let message = crate::program::stderr(&output);
    assert_eq!(message.matches("/nowhere.yml").count(), 1, "{message}");
}
