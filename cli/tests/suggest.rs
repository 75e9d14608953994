//! `tollgate suggest` shows what clients need, and the clients that each proposed limit would have denied.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write,
};

use serde_json::{Value, json};
use tollgate::{
    Limit, Limiter, Limits, MemoryBackend, Transaction,
    clock::{ManualClock, Timestamp},
};

use crate::{
    program::{expect_refusal, file, json, json_of, run, run_with, stderr, stdout},
    traffic::{OFFENDERS, Request, START, day, log, request},
};

/// How many requests of each client a limiter denies.
fn denied(limit: &Limit, requests: &[Request]) -> BTreeMap<String, u64> {
    let limits = Limits::builder()
        .limit("requests", limit.clone())
        .build()
        .unwrap();
    let clock = ManualClock::new(Timestamp::from_micros(0));
    let limiter = Limiter::new(limits, MemoryBackend::new()).with_clock(clock.clone());
    let mut denied = BTreeMap::new();
    for request in requests {
        let us = (START + request.at) * 1_000_000;
        clock.set(Timestamp::from_micros(us.cast_unsigned()));
        let id = request.id();
        let decided = limiter.try_spend(&Transaction::new("requests", &id));
        if !decided.unwrap().unwrap().allowed() {
            *denied.entry(id).or_insert(0) += 1;
        }
    }
    denied
}

fn limit_of(recommendation: &Value) -> Limit {
    recommendation["limit"].as_str().unwrap().parse().unwrap()
}

/// Returns the recommendations in the output.
fn recommendations(report: &Value) -> &[Value] {
    report["recommendations"].as_array().unwrap()
}

/// Returns the output for this share of the clients.
fn suggested(share: &str, more: &[&str], log: &str) -> Value {
    let args = ["suggest", "--json", "--deny-at-most", share];
    json_of(&run_with(&[&args, more].concat(), log.as_bytes()))
}

/// Three hundred people, an office of many slow people behind one address, and a client that never stops.
fn office_and_abuser() -> Vec<Request> {
    let mut requests = Vec::new();
    for person in 0..300 {
        let ip = format!("10.1.{}.{}", person / 250, person % 250);
        for i in 0..60 {
            requests.push(request(person * 200 + i * 10, &ip, "/"));
        }
    }
    requests.extend((0..2000).map(|i| request(40_000 + i * 14, OFFICE, "/")));
    requests.extend((0..10_000).map(|i| request(10_000 + i / 4, ABUSER, "/")));
    requests.sort_by_key(|request| request.at);
    requests
}

const OFFICE: &str = "192.0.2.80";

const ABUSER: &str = "198.51.100.7";

#[test]
fn denied_share_of_each_client_is_reported() {
    let requests = office_and_abuser();
    let log = file("log", log(&requests));
    let report = json(&["suggest", "--json", &log]);
    let output = run(&["suggest", &log]);
    let text = stdout(&output);
    assert_eq!(recommendations(&report).len(), 3, "{report}");
    for recommendation in recommendations(&report) {
        let denied = denied(&limit_of(recommendation), &requests);
        let (of_office, of_abuser) = (denied[OFFICE], denied[ABUSER]);
        let clients = recommendation["most_denied"].as_array().unwrap();
        let figures: Vec<_> = clients
            .iter()
            .map(|client| [&client["id"], &client["requests"], &client["denied"]])
            .collect();
        assert_eq!(
            figures,
            [
                [&json!(ABUSER), &json!(10_000), &json!(of_abuser)],
                [&json!(OFFICE), &json!(2000), &json!(of_office)]
            ]
        );
        // The text says which share of its requests the office loses.
        let percent = format!("({}.{:02} %)", of_office / 20, of_office % 20 * 5);
        let mut lines = text.lines().filter(|line| line.contains(OFFICE));
        assert!(
            lines.any(|line| line.contains(&percent)),
            "{percent}: {text}"
        );
    }
}

#[test]
fn need_of_a_denied_client_is_the_least_limit_that_admits_it() {
    let requests = office_and_abuser();
    let report = suggested("1%", &[], &log(&requests));
    for recommendation in recommendations(&report) {
        let limit = recommendation["limit"].as_str().unwrap();
        let needs = recommendation["most_denied"][1]["needs"].as_u64().unwrap();
        let spares_office = |size: u64| {
            let size = size.to_string();
            let limit = match limit.split_once(", ") {
                Some((rate, _)) => format!("{rate}, {size} at once"),
                None => size + limit.trim_start_matches(|c: char| c.is_ascii_digit()),
            };
            !denied(&limit.parse().expect(&limit), &requests).contains_key(OFFICE)
        };
        assert!(spares_office(needs) && !spares_office(needs - 1), "{limit}");
    }
}

#[test]
fn table_has_the_busiest_clients_and_shares_of_all() {
    // The nth of two hundred clients makes n requests: at once, or one every two seconds.
    let mut requests = Vec::new();
    for client in 1..=200_i64 {
        for i in 0..client {
            let at = if client % 2 == 0 { 0 } else { i * 2 };
            requests.push(request(at, &format!("10.0.0.{client}"), "/"));
        }
    }
    // The log is long enough for an hour, and too short for a day.
    requests.push(request(3600, "10.0.0.1", "/"));
    requests.sort_by_key(|request| request.at);
    let output = run_with(
        &["suggest", "--json", "--top", "2"],
        log(&requests).as_bytes(),
    );
    assert_eq!(
        json_of(&output)["needs"],
        json!({
            "columns": ["requests", "any second", "any minute", "any hour"],
            "busiest": [["10.0.0.200", [200, 200, 200, 200]], ["10.0.0.199", [199, 1, 30, 199]]],
            "shares": [
                ["99.9%", [200, 200, 200, 200]],
                ["99%", [198, 196, 196, 198]],
                ["90%", [180, 160, 160, 180]],
                ["50%", [100, 1, 30, 100]],
            ],
        })
    );
}

#[test]
fn limits_deny_the_offenders_and_leave_room_for_others() {
    let requests = day(300, 1);
    // The same people, with twice as many requests.
    let mut busier = Vec::new();
    for request in &requests {
        busier.extend([request.clone(), request.clone()]);
    }
    let report = suggested("1%", &["--key", "ip"], &log(&requests));
    assert_eq!(report["clients"], 303);
    assert_eq!(recommendations(&report).len(), 3);
    for recommendation in recommendations(&report) {
        let limit = limit_of(recommendation);
        let expected: BTreeSet<_> = OFFENDERS.map(str::to_owned).into();
        let of_clients = denied(&limit, &requests);
        let total: u64 = of_clients.values().sum();
        assert_eq!(
            of_clients.into_keys().collect::<BTreeSet<_>>(),
            expected,
            "{limit}"
        );
        let of_busier: BTreeSet<_> = denied(&limit, &busier).into_keys().collect();
        assert_eq!(of_busier, expected, "{limit}");
        assert_eq!(recommendation["clients_denied"], 3);
        assert_eq!(recommendation["denied"], total, "{limit}");
    }
}

#[test]
fn share_is_kept_without_outliers() {
    // Each client makes a few requests more than the one before.
    let mut requests = Vec::new();
    for client in 0..100 {
        for i in 0..20 + client * 2 {
            let ip = format!("10.0.0.{client}");
            requests.push(request(i * 320, &ip, "/"));
        }
    }
    requests.sort_by_key(|request| request.at);
    let log = log(&requests);
    for (share, most) in [("0%", 0), ("1%", 1), ("10%", 10), ("100%", 100)] {
        let report = suggested(share, &["--top", "100"], &log);
        assert_eq!(recommendations(&report).len(), 3, "{report}");
        for recommendation in recommendations(&report) {
            let denied = denied(&limit_of(recommendation), &requests);
            assert!(denied.len() <= most, "{share}: {recommendation}");
            let clients = recommendation["most_denied"].as_array().unwrap();
            let clients = clients.iter().map(|client| {
                let id = client["id"].as_str().unwrap().to_owned();
                (id, client["denied"].as_u64().unwrap())
            });
            assert_eq!(clients.collect::<BTreeMap<_, _>>(), denied);
        }
    }
}

#[test]
fn share_is_exact() {
    // The first few clients differ clearly from the others: they make a hundred requests at once.
    for (clients, share, most) in [
        (1000, "0.3%", 3),
        (1000, "0.2999999%", 2),
        (1003, "0.3%", 3),
        (1003, "0.003", 3),
        (3000, "0.1%", 3),
        (2999, "0.1 %", 2),
        (1000, ".003", 3),
    ] {
        let lines = (0..clients).flat_map(|client| {
            let requests = if client < 3 { 100 } else { 1 };
            std::iter::repeat_n(
                format!("{{\"ts\":{},\"id\":{client}}}\n", START + client * 3),
                requests,
            )
        });
        let report = suggested(share, &["--key", "id"], &lines.collect::<String>());
        assert_eq!(report["clients"], clients);
        assert!(!recommendations(&report).is_empty(), "{report}");
        for recommendation in recommendations(&report) {
            let stopped = recommendation["clients_denied"].as_u64().unwrap();
            // If two may be denied, the limit is twice the need of the third.
            let expected = if most == 3 { 3 } else { 0 };
            assert_eq!(stopped, expected, "{share} of {clients}: {recommendation}");
        }
    }
}

#[test]
fn suggested_limits_can_be_replayed() {
    let requests = day(200, 6);
    let log = file("log", log(&requests));
    let report = json(&["suggest", &log, "--json"]);
    let text = run(&["suggest", &log]);
    let lines: Vec<_> = stdout(&text)
        .lines()
        .filter(|line| line.starts_with("  requests: {"))
        .collect();
    assert_eq!(lines.len(), 3, "{}", stdout(&text));
    for (line, start) in lines.iter().zip(["burst: ", "limit: ", "quota: "]) {
        assert!(
            line.contains(&format!("{{id: ipAddress, {start}")),
            "{line}"
        );
    }
    for (line, recommendation) in lines.iter().zip(recommendations(&report)) {
        let limits = file("yml", line.trim());
        let replayed = json(&["replay", "--limits", &limits, "--json", &log]);
        let replayed = &replayed["limits"]["requests"];
        assert_eq!(replayed["denied"], recommendation["denied"], "{line}");
        assert_eq!(replayed["clients_denied"], recommendation["clients_denied"]);
    }
}

#[test]
fn many_clients_are_measured_exactly() {
    // All of these clients, and one that makes a request after every tenth of theirs.
    let mut log = String::new();
    for client in 0..120_000 {
        let second = START + client / 40;
        let _ = writeln!(log, "{{\"ts\":{second},\"id\":{client}}}");
        if client % 10 == 0 {
            let _ = writeln!(log, "{{\"ts\":{second},\"id\":\"crawler\"}}");
        }
    }
    let report = suggested("1%", &["--key", "id"], &log);
    assert_eq!(report["clients"], 120_001);
    assert_eq!(recommendations(&report).len(), 2);
    for recommendation in recommendations(&report) {
        assert_eq!(recommendation["clients_denied"], 1, "{recommendation}");
    }
}

#[test]
fn short_log_is_noted_and_leads_to_no_limits() {
    let lasting = |seconds: i64| {
        let requests: Vec<_> = (0..=seconds / 10)
            .map(|i| request(i * 10, "203.0.113.1", "/"))
            .collect();
        let args = ["suggest", "--json", "--deny-at-most", "0"];
        let output = run_with(&args, log(&requests).as_bytes());
        (
            recommendations(&json_of(&output)).len(),
            stderr(&output).to_owned(),
        )
    };
    let note = |length: &str, periods: &str| {
        format!(
            "the log covers {length}, which is too short to propose limits for what clients need in {periods}: pass a longer one\n"
        )
    };
    assert_eq!(
        lasting(30),
        (0, note("30s", "any minute or any hour or any day"))
    );
    assert_eq!(lasting(120), (0, note("2m0s", "any hour or any day")));
    // Three quarters of an hour are enough.
    assert_eq!(lasting(2690), (0, note("44m50s", "any hour or any day")));
    assert_eq!(lasting(2700), (2, note("45m0s", "any day")));
    assert_eq!(lasting(3600), (2, note("1h0m0s", "any day")));
    assert_eq!(lasting(86_000), (3, String::new()));
}

#[test]
fn window_above_4096_is_left_out() {
    for (requests, windows) in [(2048, 1), (2049, 0)] {
        let requests: Vec<_> = (0..requests)
            .map(|i| request(i * 3 / 2, OFFICE, "/"))
            .collect();
        let report = suggested("0", &[], &log(&requests));
        assert_eq!(recommendations(&report).len(), 1 + windows, "{report}");
    }
}

#[test]
fn share_of_less_than_one_client_is_named_with_the_remedy() {
    let requests: Vec<_> = (0..11)
        .map(|client| request(client * 400, &format!("203.0.113.{client}"), "/"))
        .collect();
    let note = "--deny-at-most is less than one of 11 clients, so the limits must not deny anybody: to let them deny one, use \
                --deny-at-most 10%\n";
    for (share, is_named) in [("1%", true), ("10%", false), ("0%", false)] {
        let args = ["suggest", "--deny-at-most", share];
        let output = run_with(&args, log(&requests).as_bytes());
        assert_eq!(stderr(&output).contains(note), is_named, "{share}");
    }
}

#[test]
fn bad_arguments_have_exit_code_2() {
    let log = file("log", "");
    for (args, reason) in [
        (["--deny-at-most", "101%"], "`101%` is no share of clients"),
        (["--deny-at-most", "1.1"], "is no share"),
        (["--deny-at-most", "x%"], "is no share"),
        (["--deny-at-most", "."], "is no share"),
        (["--deny-at-most", "%"], "is no share"),
        (["--key", "a/b"], "the key `a/b`"),
    ] {
        expect_refusal(
            &run(&[&["suggest", &log], &args[..]].concat()),
            2,
            &[reason],
        );
    }
}
