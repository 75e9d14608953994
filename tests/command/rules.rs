//! The file of rules: which requests meet which limit, as with `tollgate::Rule`.

use http::Method;
use serde_json::json;
use tollgate::{
    ClientIp, Limits, RateLimitLayer, Rule,
    limit::Language,
    rule::{methods, paths},
};

use crate::{
    program::{expect_refusal, file, json, json_of, run},
    server::{limiter, refusals},
    traffic::{Numbers, Request, log, request},
};

const LIMITS: &str = "
logins: {burst: 2, count: 1, period: 1m}
files: {burst: 5, count: 5, period: 1m}
accounts: {burst: 3, count: 1, period: 1h}
";

fn requests() -> Vec<Request> {
    let mut numbers = Numbers(21);
    let targets = [
        "/login",
        "/%6cogin",
        "/Login",
        "/files/a",
        "/files",
        "/files/../login",
        "/",
    ];
    (0..3000)
        .map(|i| {
            let pick = usize::try_from(numbers.below(targets.len() as u64)).unwrap();
            let ip = format!("203.0.113.{}", numbers.below(5));
            let method = if numbers.below(3) == 0 { "POST" } else { "GET" };
            let request = request(i / 5, &ip, targets[pick]);
            Request { method, ..request }
        })
        .collect()
}

#[test]
fn paths_and_methods_are_those_of_a_server() {
    let requests = requests();
    let limits = Limits::builder()
        .defaults_text(Language::Yaml, LIMITS)
        .build()
        .unwrap();
    let by_limit = |name: &str, rule: Rule| {
        let (limiter, clock) = limiter(limits.clone());
        let layer = RateLimitLayer::with_limiter(limiter).rule(rule);
        let refusals = refusals(&layer, &clock, &requests, |request| request.ip.to_string());
        assert!(refusals.total() > 20, "{name}");
        refusals.as_json(5)
    };
    let peer = ClientIp::peer();
    let login = Rule::new("logins", peer.clone())
        .only_if(paths(["/login"]))
        .only_if(methods([Method::POST]));
    let files = Rule::new("files", peer).only_if(paths(["/files/*"]));
    // Each for itself, as in a layer of its own.
    let expected = [
        ("logins", by_limit("logins", login)),
        ("files", by_limit("files", files)),
    ];
    let (limits, log) = (file("yml", LIMITS), file("log", log(&requests)));
    for (name, mut expected) in expected {
        let rule = match name {
            "logins" => "- {limit: logins, path: /login, method: POST}",
            _ => "- {limit: files, key: ip, path: [/files/*]}",
        };
        let rules = file("yml", rule);
        let args = [
            "replay", "--limits", &limits, "--rules", &rules, "--json", &log,
        ];
        let mut told = json(&args)["limits"][name].clone();
        // A server also gets the requests that meet no limit.
        for limit in [&mut told, &mut expected] {
            limit.as_object_mut().unwrap().remove("requests");
            limit.as_object_mut().unwrap().remove("clients");
        }
        assert_eq!(told, expected, "{name}");
    }
}

#[test]
fn fields_are_keys_and_costs_are_charged() {
    let line = |account: &str| {
        format!(
            "{{\"time\":\"2026-11-01T00:00:00Z\",\"ip\":\"203.0.113.7\",\"user\":{{\"account\":{account}}}}}\n"
        )
    };
    let log = [
        line("7"),
        line("\"7\""),
        line("8"),
        line("null"),
        line("[]"),
    ]
    .concat();
    let (limits, log) = (file("yml", LIMITS), file("json", log));
    let rules = file(
        "yml",
        "- {limit: accounts, key: user.account, cost: 2}\n- {limit: accounts, key: user.account}\n",
    );
    let told = json(&[
        "replay", "--limits", &limits, "--rules", &rules, "--json", &log,
    ]);
    // Two rules for one bucket charge the sum of their costs.
    assert_eq!(
        told["limits"],
        json!({"accounts": {
            "requests": 3, "clients": 2, "denied": 1, "clients_denied": 1,
            "most_denied": [{"id": "7", "denied": 1, "first": "2026-11-01T00:00:00Z"}],
        }})
    );
}

#[test]
fn ids_in_another_format_are_noted() {
    let limits = file(
        "yml",
        "accounts: {id: regId, burst: 1, count: 1, period: 1s}\n",
    );
    let log = file(
        "json",
        "{\"ts\":1793491200.5,\"account\":\"x\"}\n{\"ts\":1793491200.5,\"account\":12}\n",
    );
    let output = run(&[
        "replay", "--limits", &limits, "--key", "account", "--json", &log,
    ]);
    assert_eq!(json_of(&output)["limits"]["accounts"]["requests"], 1);
    assert!(
        crate::program::stderr(&output)
            .contains("does not admit their id or cost, and did not count there: 1")
    );
}

#[test]
fn mistakes_name_the_rule() {
    let (limits, log) = (file("yml", LIMITS), file("log", ""));
    for (rules, reason) in [
        (
            "- {limit: login}",
            "rule 1: unknown limit `login`: known are accounts, files, logins",
        ),
        (
            "- {limit: logins}\n- {limit: files, path: files}",
            "rule 2: the path `files` matches no request: begin it with `/`",
        ),
        ("- {limit: files, path: '/a/{b}'}", "is a route pattern"),
        ("- {limit: files, pth: /}", "pth"),
        (
            "- {limit: files, cost: 6}",
            "a cost of 6 never fits: the limit admits at most 5 at once",
        ),
        ("- {limit: files, cost: 0}", "use at least 1"),
        ("[]", "it has no rules"),
    ] {
        let rules = file("yml", rules);
        expect_refusal(
            &run(&["replay", "--limits", &limits, "--rules", &rules, &log]),
            2,
            &[&rules, reason],
        );
    }
}

#[test]
fn a_limit_that_no_request_meets_is_noted() {
    let limits = file(
        "yml",
        "a: {burst: 1, count: 1, period: 1s}\nb: {burst: 1, count: 1, period: 1s}\n",
    );
    let rules = file(
        "yml",
        "- {limit: a, method: get}\n- {limit: b, method: GET}\n",
    );
    let log = file("log", log(&[request(0, "203.0.113.7", "/")]));
    let output = run(&["replay", "--limits", &limits, "--rules", &rules, &log]);
    let notes = crate::program::stderr(&output);
    assert!(notes.contains("no request met limit `a`: "), "{notes}");
    assert!(!notes.contains("limit `b`"), "{notes}");
}

#[test]
fn a_mistake_is_told_once() {
    let limits = file("yml", "a: {burst: 1, count: 1, period: 1s}\n");
    let rules = file("yml", "- {limit: z}\n");
    let log = file("log", "");
    let output = run(&["replay", "--limits", &limits, "--rules", &rules, &log]);
    let message = crate::program::stderr(&output);
    assert_eq!(message.matches("unknown limit `z`").count(), 1, "{message}");
}
