//! `tollgate replay` shows what a server would have done.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use tollgate::{
    Limiter, Limits, MemoryBackend, Transaction,
    clock::{ManualClock, Timestamp},
};

use crate::{
    logs::ONE_PER_HOUR,
    program::{expect_refusal, file, json_of, replay, run, stderr, stdout},
    traffic::{Request, START, day, log, request},
};

/// Returns what a server with these limits denies each client, by limit, in the form of `--json`.
fn served(limits: &str, names: &[&str], requests: &[Request]) -> Value {
    let limits = Limits::builder()
        .defaults_text("limits.yml", limits)
        .build()
        .unwrap();
    let clock = ManualClock::new(Timestamp::from_micros(0));
    let limiter = Limiter::new(limits, MemoryBackend::new()).with_clock(clock.clone());
    let (mut clients, mut denied) = (BTreeMap::new(), vec![BTreeMap::new(); names.len()]);
    for request in requests {
        let us = (START + request.at) * 1_000_000;
        clock.set(Timestamp::from_micros(us.cast_unsigned()));
        let id = request.id();
        let batch: Vec<_> = names
            .iter()
            .map(|name| Transaction::new(name, &id))
            .collect();
        let decided = limiter.try_spend_batch(&batch).unwrap().unwrap();
        for (denied, decision) in denied.iter_mut().zip(decided.members()) {
            if !decision.allowed() {
                denied.entry(id.clone()).or_insert((0_u64, request.at)).0 += 1;
            }
        }
        *clients.entry(id).or_insert(0) += 1;
    }
    let figures = denied.into_iter().map(|denied| {
        let mut most: Vec<_> = denied.iter().collect();
        most.sort_by_key(|(id, (denied, first))| (u64::MAX - denied, *first, (*id).clone()));
        let most = most.into_iter().take(10).map(|(id, (denied, first))| {
            let first = jiff::Timestamp::from_second(START + first).unwrap().to_string();
            json!({"id": id, "denied": denied, "first": first})
        });
        let total: u64 = denied.values().map(|(denied, _)| denied).sum();
        assert!(total > 100);
        json!({"requests": requests.len(), "clients": clients.len(), "denied": total, "clients_denied": denied.len(), "most_denied": most.collect::<Vec<_>>()})
    });
    let limits = names.iter().map(|name| (*name).to_owned()).zip(figures);
    json!({"lines": requests.len(), "unreadable": 0, "limits": limits.collect::<serde_json::Map<_, _>>()})
}

#[test]
fn replay_says_the_same_as_a_server() {
    let requests = day(80, 7);
    let two = "short: {id: ipAddress, burst: 3, count: 3, period: 1s}\nlong: {id: ipAddress, limit: 200, window: 1h}\n";
    for (limits, names) in [
        (
            "requests: {id: ipAddress, burst: 20, count: 1, period: 3s}\n",
            &["requests"][..],
        ),
        (
            "requests: {id: ipAddress, quota: 400, per: hour}\n",
            &["requests"],
        ),
        (
            "requests: {id: ipAddress, quota: 50, per: day, time_zone: America/Los_Angeles}\n",
            &["requests"],
        ),
        // Both limits are charged, or none.
        (two, &["short", "long"]),
    ] {
        let report = json_of(&replay(limits, &[], log(&requests)));
        assert_eq!(report, served(limits, names, &requests), "{limits}");
    }
}

#[test]
fn overrides_shadow_mode_and_blocks_apply() {
    let requests: Vec<_> = (0..20)
        .map(|i| request(0, ["203.0.113.7", "203.0.113.8"][i % 2], "/"))
        .collect();
    let limits = "a: {burst: 4, count: 1, period: 1s, shadow: true}\nb: {blocked: true, shadow: true}\nc: {concurrent: 4}\n";
    let overrides = file("yml", "- a: {unlimited: true, ids: [203.0.113.7]}\n");
    let output = replay(limits, &["--overrides", &overrides], log(&requests));
    let report = &json_of(&output)["limits"];
    assert_eq!(
        (&report["a"]["denied"], &report["a"]["most_denied"][0]["id"]),
        (&json!(6), &json!("203.0.113.8"))
    );
    assert_eq!(
        (&report["b"]["denied"], &report["c"]),
        (&json!(20), &json!(null))
    );
    assert_eq!(
        stderr(&output),
        "limit `c` is left out: it counts what runs at once, which a log does not show\n"
    );
}

#[test]
fn each_client_in_a_range_has_its_values() {
    let clients = ["198.51.100.7", "198.51.100.8", "203.0.113.7"];
    let requests: Vec<_> = (0..15).map(|i| request(0, clients[i % 3], "/")).collect();
    let limits = "a: {id: ipAddress, burst: 1, count: 1, period: 1h}\n";
    let ranges = file(
        "yml",
        "- a: {burst: 3, count: 1, period: 1h, ids: [198.51.100.0/24]}\n",
    );
    let report = json_of(&replay(limits, &["--overrides", &ranges], log(&requests)));
    let denied = report["limits"]["a"]["most_denied"].as_array().unwrap();
    let denied: Vec<_> = denied
        .iter()
        .map(|client| (client["id"].as_str().unwrap(), &client["denied"]))
        .collect();
    let expected = [("203.0.113.7", 4), ("198.51.100.7", 2), ("198.51.100.8", 2)];
    let denied: Vec<_> = denied
        .iter()
        .map(|(id, n)| (*id, n.as_u64().unwrap()))
        .collect();
    assert_eq!(denied, expected);
}

#[test]
fn lists_have_ten_clients_or_as_many_as_are_asked_for() {
    let of_client = |client| (0..2).map(move |_| request(0, &format!("203.0.113.{client}"), "/"));
    let log = log(&(0..12).flat_map(of_client).collect::<Vec<_>>());
    for (args, clients) in [(&[][..], 10), (&["--top", "3"], 3), (&["--top", "20"], 12)] {
        let report = json_of(&replay(ONE_PER_HOUR, args, log.clone()));
        let listed = report["limits"]["requests"]["most_denied"]
            .as_array()
            .unwrap();
        assert_eq!(listed.len(), clients, "{args:?}");
    }
}

#[test]
fn text_has_shares_waits_and_clients() {
    let requests: Vec<_> = (0..10).map(|_| request(0, "203.0.113.7", "/")).collect();
    let log = file("log", log(&requests));
    let parts = |limits: &str, parts: &[&str]| {
        let output = run(&["replay", "--limits", &file("yml", limits), &log]);
        let text = stdout(&output);
        parts
            .iter()
            .for_each(|part| assert!(text.contains(part), "{part}: {text}"));
    };
    parts(
        "requests: 1/s burst 4\n",
        &[
            "10 lines, 0 of them unreadable",
            "1 per 1s, 4 at once",
            "6 (60.00 %)",
            "1 (100.00 %)",
            "203.0.113.7",
        ],
    );
    parts(
        "requests: 1 per 1s, 4 at once, waiting up to 3s\n",
        &["3 (30.00 %)", "requests: 3 waited in line, for at most 3s"],
    );
}

#[test]
fn rules_choose_paths_and_methods() {
    let rules = file(
        "yml",
        "- {limit: logins, path: /login, method: POST}\n- {limit: files, key: everyone, path: [/files/*]}\n",
    );
    let post = |path| Request {
        method: "POST",
        ..request(0, "203.0.113.7", path)
    };
    let get = |path| request(0, "203.0.113.7", path);
    let requests = [
        post("/login"),
        get("/login"),
        post("/Login"),
        post("/login/"),
        post("/login"),
        post("/login"),
        get("/files/a"),
        post("/files/b"),
        get("/files"),
        get("/files/../login"),
    ];
    let limits = "logins: 2/h\nfiles: 2/h\n";
    let report = json_of(&replay(limits, &["--rules", &rules], log(&requests)));
    let figures = ["logins", "files"].map(|limit| {
        (
            &report["limits"][limit]["requests"],
            &report["limits"][limit]["denied"],
        )
    });
    assert_eq!(figures, [(&json!(3), &json!(1)), (&json!(2), &json!(0))]);
}

#[test]
fn fields_are_keys_and_costs_are_charged() {
    let line = |account: &str| {
        format!(
            "{{\"time\":\"2026-11-01T00:00:00Z\",\"ip\":\"203.0.113.7\",\"user\":{{\"account\":{account}}}}}\n"
        )
    };
    let log: String = ["7", "\"7\"", "8", "null", "[]"].map(line).concat();
    let limits = "accounts: {burst: 3, count: 1, period: 1h}\n";
    let rules = file(
        "yml",
        "- {limit: accounts, key: user.account, cost: 2}\n- {limit: accounts, key: user.account}\n",
    );
    let report = json_of(&replay(limits, &["--rules", &rules], log));
    // Two rules for one bucket charge the sum of their costs.
    let most = json!([{"id": "7", "denied": 1, "first": "2026-11-01T00:00:00Z"}]);
    assert_eq!(
        report["limits"],
        json!({"accounts": {"requests": 3, "clients": 2, "denied": 1, "clients_denied": 1, "most_denied": most}})
    );
}

#[test]
fn uncounted_requests_are_noted() {
    let limits = "accounts: {id: regId, burst: 1, count: 1, period: 1s}\nothers: 1/s\n";
    let rules = file(
        "yml",
        "- {limit: accounts, key: account}\n- {limit: others, method: get}\n",
    );
    let log = "{\"ts\":1793491200.5,\"account\":\"x\"}\n{\"ts\":1793491200.5,\"account\":12}\n";
    let log = log.replace("}", ",\"ip\":\"203.0.113.7\"}");
    let output = replay(limits, &["--rules", &rules], log);
    assert_eq!(json_of(&output)["limits"]["accounts"]["requests"], 1);
    for note in [
        "does not admit their id or cost, and did not count there: 1\n",
        "no request met limit `others`: ",
    ] {
        assert!(stderr(&output).contains(note), "{}", stderr(&output));
    }
}

#[test]
fn mistakes_in_rules_name_the_rule_once() {
    let limits = file("yml", "logins: 2/m\nfiles: 5/m\n");
    for (rules, reason) in [
        (
            "- {limit: login}",
            "rule 1: unknown limit `login`: known are files, logins",
        ),
        (
            "- {limit: logins}\n- {limit: files, path: files}",
            "rule 2: the path `files` matches no request: begin it with `/`",
        ),
        (
            "- {limit: files, path: [/, '/*', /a//b]}",
            "the path `/a//b` matches no request: ",
        ),
        (
            "- {limit: files, path: '/a/{b}/*'}",
            "the path `/a/{b}/*` matches no request: ",
        ),
        (
            "- {limit: files, path: '/a?b//c'}",
            "the path `/a?b//c` matches no request: ",
        ),
        (
            "- {limit: files, pth: /}",
            "error: line 1 column 18: unknown field `pth`",
        ),
        (
            "- {limit: files, cost: 6}",
            "a cost of 6 never fits: the limit admits at most 5 at once",
        ),
        ("- {limit: files, cost: 0}", "use at least 1"),
        ("[]", "it has no rules"),
    ] {
        let rules = file("yml", rules);
        let output = run(&["replay", "--limits", &limits, "--rules", &rules]);
        expect_refusal(&output, 2, &[&rules, reason]);
        assert_eq!(
            stderr(&output).matches(reason).count(),
            1,
            "{}",
            stderr(&output)
        );
    }
}

#[test]
fn bad_arguments_and_files_have_exit_code_2() {
    let (limits, bad) = (
        file("yml", ONE_PER_HOUR),
        file("yml", "requests: {burst: 0, count: 1, period: 1s}\n"),
    );
    let replay = ["replay", "--limits", &limits];
    let cases: [(&[&str], &str); 7] = [
        (&["replay"], "--limits <FILE>"),
        (&["replay", "--limits", "/nowhere.yml"], "/nowhere.yml"),
        (&["replay", "--limits", &bad], "burst"),
        (
            &[&replay[..], &["/nowhere.log"]].concat(),
            "/nowhere.log: cannot read it: ",
        ),
        (&[&replay[..], &["/"]].concat(), "/: cannot read it: "),
        (&[&replay[..], &["--key", "/47"]].concat(), "the key `/47`"),
        (&[], "Usage"),
    ];
    for (args, reason) in cases {
        let output = run(args);
        expect_refusal(&output, 2, &[reason]);
        assert!(
            stderr(&output).matches("/nowhere").count() <= 1 || reason.starts_with("--"),
            "{}",
            stderr(&output)
        );
    }
}
