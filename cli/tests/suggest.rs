//! `tollgate suggest` finds limits that stop the outliers, and nobody else.

use std::{collections::BTreeSet, fmt::Write, time::Duration};

use serde_json::Value;
use tollgate::{
    Limit, Limiter, Limits, MemoryBackend, Transaction,
    clock::{ManualClock, Timestamp},
    quota::Per,
};

use crate::{
    program::{expect_refusal, file, json, json_of, run, run_with, stdout},
    traffic::{OFFENDERS, Request, START, day, log, request},
};

/// What a limiter denies, by client.
fn denied(limit: &Limit, requests: &[Request]) -> (u64, BTreeSet<String>) {
    let limits = Limits::builder()
        .limit("requests", limit.clone())
        .build()
        .unwrap();
    let clock = ManualClock::new(Timestamp::from_micros(0));
    let limiter = Limiter::new(limits, MemoryBackend::new()).with_clock(clock.clone());
    let (mut total, mut clients) = (0, BTreeSet::new());
    for request in requests {
        let us = (START + request.at) * 1_000_000;
        clock.set(Timestamp::from_micros(us.cast_unsigned()));
        let id = request.id();
        let decided = limiter.try_spend(&Transaction::new("requests", &id));
        if !decided.unwrap().unwrap().allowed() {
            total += 1;
            clients.insert(id);
        }
    }
    (total, clients)
}

/// Expects that the fields of a recommendation are those of its limit.
fn limit_of(told: &Value) -> Limit {
    let limit: Limit = told["limit"].as_str().unwrap().parse().unwrap();
    let number = |field: &str| u32::try_from(told[field].as_u64().unwrap()).unwrap();
    let time = |field: &str| Duration::from_micros(told[field].as_u64().unwrap());
    let fields = match told["kind"].as_str().unwrap() {
        "gcra" => Limit::new(number("burst"), number("count"), time("period_us")).unwrap(),
        "window" => Limit::window(number("units"), time("window_us")),
        "quota" => {
            let per = match told["per"].as_str().unwrap() {
                "hour" => Per::Hour,
                "day" => Per::Day,
                "week" => Per::Week,
                per => panic!("{per}"),
            };
            Limit::quota(number("quota"), per)
        }
        kind => panic!("{kind}"),
    };
    assert_eq!(limit, fields);
    limit
}

/// What it suggests for this share of the clients.
fn suggested(share: &str, more: &[&str], log: &str) -> Value {
    let args = ["suggest", "--json", "--deny-at-most", share];
    json_of(&run_with(&[&args, more].concat(), log.as_bytes()))
}

#[test]
fn offenders_are_stopped_and_nobody_else() {
    for (seed, share) in [(1, "1%"), (2, "5%"), (3, "0.1")] {
        let requests = day(300, seed);
        // The same people, with another third of what they did.
        let busier: Vec<_> = requests
            .iter()
            .enumerate()
            .flat_map(|(i, request)| {
                std::iter::repeat_n(request.clone(), 1 + usize::from(i % 3 == 0))
            })
            .collect();
        let told = suggested(share, &["--key", "ip"], &log(&requests));
        assert_eq!(told["clients"], 303);
        let recommendations = told["recommendations"].as_array().unwrap();
        let kinds: Vec<_> = recommendations.iter().map(|one| &one["kind"]).collect();
        assert_eq!(kinds, ["gcra", "window", "quota"]);
        for recommendation in recommendations {
            let limit = limit_of(recommendation);
            let (total, clients) = denied(&limit, &requests);
            assert_eq!(clients, OFFENDERS.map(str::to_owned).into(), "{limit}");
            assert_eq!(recommendation["clients_denied"], 3);
            assert_eq!(recommendation["denied"], total, "{limit}");
            let (_, clients) = denied(&limit, &busier);
            assert_eq!(clients.len(), 3, "{limit} leaves people no room");
        }
    }
}

#[test]
fn share_is_kept_without_a_gap() {
    // Nobody stands out: each client makes a few requests more than the one before.
    let mut requests = Vec::new();
    for client in 0..400 {
        for i in 0..20 + client / 4 {
            requests.push(request(
                i,
                &format!("10.0.{}.{}", client / 200, client % 200),
                "/",
            ));
        }
    }
    requests.sort_by_key(|request| request.at);
    let log = log(&requests);
    for (share, most) in [("0%", 0), ("1%", 4), ("10%", 40), ("100%", 400)] {
        let told = suggested(share, &[], &log);
        let recommendations = told["recommendations"].as_array().unwrap();
        assert_eq!(recommendations.len(), 3, "{told}");
        for recommendation in recommendations {
            let (total, clients) = denied(&limit_of(recommendation), &requests);
            assert!(clients.len() <= most, "{share}: {recommendation}");
            assert_eq!(recommendation["clients_denied"], clients.len());
            assert_eq!(recommendation["denied"], total);
        }
    }
}

#[test]
fn share_is_exact() {
    // Clients that nobody could confuse: the first few make a hundred requests at once.
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
                format!("{{\"ts\":{},\"id\":{client}}}\n", START + client),
                requests,
            )
        });
        let told = suggested(share, &["--key", "id"], &lines.collect::<String>());
        assert_eq!(told["clients"], clients);
        for recommendation in told["recommendations"].as_array().unwrap() {
            let stopped = recommendation["clients_denied"].as_u64().unwrap();
            assert!(stopped <= most, "{share} of {clients}: {recommendation}");
            assert!(
                stopped == 3 || most < 3,
                "{share} of {clients}: {recommendation}"
            );
        }
    }
}

#[test]
fn what_is_suggested_can_be_replayed() {
    let requests = day(200, 6);
    let log = file("log", log(&requests));
    let told = json(&["suggest", &log, "--json"]);
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
    for (line, recommendation) in lines
        .iter()
        .zip(told["recommendations"].as_array().unwrap())
    {
        let limits = file("yml", line.trim());
        let replayed = json(&["replay", "--limits", &limits, "--json", &log]);
        let replayed = &replayed["limits"]["requests"];
        assert_eq!(replayed["denied"], recommendation["denied"], "{line}");
        assert_eq!(replayed["clients_denied"], recommendation["clients_denied"]);
    }
}

#[test]
fn many_clients_are_measured_exactly() {
    // All of them, and one that makes a request for every tenth of the others.
    let mut log = String::new();
    for client in 0..120_000 {
        let second = START + client / 100;
        let _ = writeln!(log, "{{\"ts\":{second},\"id\":{client}}}");
        if client % 10 == 0 {
            let _ = writeln!(log, "{{\"ts\":{second},\"id\":\"crawler\"}}");
        }
    }
    let told = json_of(&run_with(
        &["suggest", "--key", "id", "--json"],
        log.as_bytes(),
    ));
    assert_eq!(told["clients"], 120_001);
    for recommendation in told["recommendations"].as_array().unwrap() {
        assert_eq!(recommendation["clients_denied"], 1, "{recommendation}");
    }
}

#[test]
fn who_stands_out_is_named_if_the_share_is_nobody() {
    let mut requests: Vec<_> = (0..2000)
        .map(|i| request(i / 10, "203.0.113.1", "/"))
        .collect();
    requests.extend((2..12).map(|n| request(100, &format!("203.0.113.{n}"), "/")));
    let log = file("log", log(&requests));
    let advice = "1 % is nobody, but these stand out: 203.0.113.1. Use --deny-at-most 9.1%\n";
    let text = run(&["suggest", &log]);
    assert!(stdout(&text).contains(advice), "{}", stdout(&text));
    let text = run(&["suggest", "--deny-at-most", "9.1%", &log]);
    let text = stdout(&text);
    assert!(!text.contains("stand out"), "{text}");
    assert!(
        text.contains("  admits at most ") && text.contains(" 203.0.113.1 "),
        "{text}"
    );
    assert!(
        text.contains("it stops 1 client, ") && text.contains(" and 1 (9.09 %) of 11 clients"),
        "{text}"
    );
    // Nobody was asked for.
    let text = run(&["suggest", "--deny-at-most", "0%", &log]);
    assert!(!stdout(&text).contains("stand out"), "{}", stdout(&text));
}

#[test]
fn bad_arguments_have_exit_code_2() {
    let log = file("log", "");
    for (args, reason) in [
        (["--deny-at-most", "101%"], "`101%` is no share of clients"),
        (["--deny-at-most", "1.1"], "is no share"),
        (["--deny-at-most", "x%"], "is no share"),
        (["--deny-at-most", "."], "is no share"),
        (["--key", "a/b"], "the key `a/b`"),
    ] {
        expect_refusal(
            &run(&[&["suggest", &log], &args[..]].concat()),
            2,
            &[reason],
        );
    }
}
