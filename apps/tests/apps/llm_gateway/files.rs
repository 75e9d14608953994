//! The files of limits and keys: mistakes at startup, and changes while the gateway runs.

use super::{ALICE, BOB, Gateway, KEYS, arguments, call, file, limits, number};
use crate::{
    eventually::eventually,
    programs::{replace, run},
};

/// No server listens here.
const NOWHERE: &str = "http://127.0.0.1:1";

/// The error of a gateway that does not start.
fn mistake(limits: &str, keys: &str, upstream: &str, args: &[&str]) -> String {
    let (limits, keys) = (file("limits.yml", limits), file("keys.yml", keys));
    let args = arguments(upstream, &limits, &keys, args);
    let output = run("llm_gateway", &args);
    assert!(matches!(output.status.code(), Some(1 | 2)));
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn keys_are_read_again() {
    let gateway = Gateway::start(&[]);
    let status = |key: &str| gateway.call(key, &call("", 1), 0).status;
    assert_eq!(status(BOB), 200);
    // The key of bob is withdrawn, and alice has another plan.
    let (alice, _) = KEYS.split_once("  - {id: bob").unwrap();
    replace(&gateway.keys, &alice.replace("plan: free", "plan: pro"));
    eventually("the keys are read again", || status(BOB) == 401);
    let response = gateway.call(ALICE, &call("", 1), 0);
    assert_eq!(number(&response, "x-ratelimit-limit-requests"), 2000);

    replace(&gateway.keys, "keys: []");
    assert_eq!(status(ALICE), 200);
    replace(&gateway.keys, KEYS);
    gateway.comes_to_serve(BOB);
}

#[test]
fn mistakes_end_the_start() {
    let limits = limits(&[]);
    for (wrong, keys, error) in [
        (
            "free.token: 1/s",
            KEYS,
            "no call has the limit `free.token`",
        ),
        ("free: 1/s", KEYS, "no call has the limit `free`"),
        (&*limits, "models: []", "missing field"),
        (
            &limits,
            &KEYS.replace("plan: pro", "plan: gold"),
            "the plan `gold`",
        ),
        (
            &limits,
            &KEYS.replace("class: large", "class: huge"),
            "the class `huge`",
        ),
        (
            &limits,
            &KEYS.replace("small-model", "large-model"),
            "`large-model` occurs twice",
        ),
        (
            &limits,
            &KEYS.replace("sha256: ", "sha256: x"),
            "the key of `alice` is no hash",
        ),
    ] {
        let told = mistake(wrong, keys, NOWHERE, &[]);
        assert!(told.contains(error), "{told}");
    }
    let path = mistake(&limits, KEYS, "https://example.com", &[]);
    assert!(path.contains("is no address of a server"), "{path}");
    let help = run("llm_gateway", &["--help"]);
    assert_eq!(help.status.code(), Some(0));
    let help = String::from_utf8(help.stdout).unwrap();
    assert!(help.contains("--upstream"), "{help}");
    let usage = mistake(&limits, KEYS, NOWHERE, &["--gateways", "0"]);
    assert!(usage.contains("0 is not in 1.."), "{usage}");
}
