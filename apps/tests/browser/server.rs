//! The server rejects requests that the page never sends.

use serde_json::json;

use crate::programs::{Program, Response, Server};

const JSON: (&str, &str) = ("content-type", "application/json");

fn start() -> (Program, Server) {
    let program = Program::start_anywhere("simulator");
    let server = program.next_server();
    (program, server)
}

fn simulation(server: &Server, query: &str) -> String {
    let started = server.send("POST", &format!("/simulations{query}"), &[JSON], "");
    assert_eq!(started.status, 201, "{}", started.body);
    started.json()["id"].as_str().unwrap().to_owned()
}

fn steps(server: &Server, id: &str, body: &str) -> Response {
    server.send("POST", &format!("/simulations/{id}/steps"), &[JSON], body)
}

#[test]
fn decisions_carry_the_state_of_the_bucket() {
    let (_program, server) = start();
    let id = simulation(
        &server,
        "?tiers=1,1,1,0,1,2,2,9&gcra=1,1,1&window=1,2&quota=1,3&concurrent=1,2",
    );
    let body = r#"{"steps": [{"at": 0, "units": 1}, {"at": 5, "units": 1}, {"at": 6, "units": 1}, {"at": 2006}]}"#;
    let seen = steps(&server, &id, body).json();
    assert_eq!(seen[0]["decision"]["split"], json!([[0, 1]]));
    assert_eq!(seen[1]["decision"]["note"], "bursts into tier 1");
    assert_eq!(seen[1]["tiers"][0]["shadowed"], true);
    assert_eq!(seen[1]["tiers"][1]["active_until"], 2005);
    assert_eq!(seen[1]["tiers"][1]["cooldown_until"], 11_005);
    assert_eq!(seen[2]["decision"]["granted"], false);
    assert_eq!(seen[2]["decision"]["tier"], 1);
    // Two seconds and one microsecond after it was entered, the tier is over.
    assert_eq!(seen[2]["decision"]["wait_us"], 1_999_001);
    let waits = ["gcra", "window", "quota"]
        .map(|limit| seen[2]["decision"]["plain"][limit]["wait_us"].clone());
    assert_eq!(waits, [994_000, 1_994_000, 2_994_000]);
    let permits = seen[2]["decision"]["plain"]["concurrent"].clone();
    assert_eq!(permits, json!({"granted": false, "wait_us": null}));
    let left = json!({"gcra": 0, "window": 0, "quota": 0, "concurrent": 0});
    assert_eq!(seen[2]["left"], left);
    assert_eq!(seen[3]["decision"], json!(null));
    assert_eq!(seen[3]["tiers"][1]["phase"], "cooldown");
    let left = json!({"gcra": 1, "window": 1, "quota": 0, "concurrent": 1});
    assert_eq!(seen[3]["left"], left);
    let many = steps(&server, &id, r#"{"steps": [{"at": 9000, "units": 2}]}"#).json();
    let never = json!({"granted": false, "wait_us": null});
    let never = json!({"gcra": never, "window": never, "quota": never, "concurrent": never});
    assert_eq!(many[0]["decision"]["plain"], never);
}

#[test]
fn malformed_list_counts_as_five_a_second_as_a_whole() {
    let (_program, server) = start();
    for list in [
        "tiers=",
        "tiers=9,9,9",
        "tiers=9,9,9,9,9",
        "tiers=9,9,9,9,",
        "tiers=9,9,9,x",
        "tiers=9,9,9,-1",
        "tiers=9,9,9,%2B1",
        "tiers=9,9,9,1.5",
        "tiers=9,9,9,%209",
        "tiers=9,9,9,99999999999",
        "tiers=9,9,9,9,9,9,9,9,9,9,9,9,9,9,9,9,9,9,9,9",
        "gcra=9,9",
        "gcra=9,9,9,9",
        "window=9",
        "window=9,9,9",
        "quota=9,x",
        "quota=",
        "concurrent=9",
        "concurrent=9,9,9",
    ] {
        let started = server.send("POST", &format!("/simulations?{list}"), &[JSON], "");
        let config = json!({
            "tiers": [[5, 1, 1, 0]], "gcra": [5, 5, 1], "window": [5, 1], "quota": [5, 1], "concurrent": [5, 1],
        });
        assert_eq!(started.json()["config"], config, "{list}");
    }
}

#[test]
fn garbage_is_refused_with_a_reason() {
    let (_program, server) = start();
    let id = simulation(&server, "");
    let many = format!(r#"{{"steps": [{}]}}"#, vec![r#"{"at": 0}"#; 513].join(","));
    for (body, status) in [
        ("", 400),
        ("{", 400),
        ("[]", 422),
        (r#"{"steps": 1}"#, 422),
        (r#"{"steps": [], "more": 1}"#, 422),
        (r#"{"steps": [{"at": -1}]}"#, 422),
        (r#"{"steps": [{"at": 1.5}]}"#, 422),
        (r#"{"steps": [{"at": 99999999999999999999}]}"#, 422),
        (r#"{"steps": [{"at": 18446744073709551615}]}"#, 422),
        (r#"{"steps": [{"at": 1, "units": 1001}]}"#, 422),
        (many.as_str(), 422),
    ] {
        let refused = steps(&server, &id, body);
        assert_eq!(refused.status, status, "{body}");
        assert!(refused.json()["error"].is_string(), "{body}");
    }
    steps(&server, &id, r#"{"steps": [{"at": 7}]}"#);
    let refused = steps(&server, &id, r#"{"steps": [{"at": 6}]}"#);
    assert_eq!(
        refused.json()["error"],
        "6 ms is before 7 ms, where the simulation is: time only goes on"
    );
    assert_eq!(steps(&server, "nobody's", r#"{"steps": []}"#).status, 404);
}

#[test]
fn oversize_body_is_not_read() {
    let (_program, server) = start();
    let id = simulation(&server, "");
    let body = format!(r#"{{"steps": [{}{{"at": 0}}]}}"#, " ".repeat(1 << 16));
    assert_eq!(steps(&server, &id, &body).status, 413);
}

#[test]
fn invalid_simulation_is_answered_with_the_error() {
    let (_program, server) = start();
    let refused = server.send("POST", "/simulations?tiers=0,1,1,0", &[JSON], "");
    assert_eq!(refused.status, 422);
    let refused = refused.json();
    assert!(
        refused["error"]
            .as_str()
            .unwrap()
            .starts_with("tiers: tier 0: limit is 0")
    );
    assert_eq!(refused["config"]["tiers"], json!([[0, 1, 1, 0]]));
}

#[test]
fn simulations_are_bounded_and_make_room_when_they_end() {
    let (_program, server) = start();
    let first = simulation(&server, "");
    for _ in 1..256 {
        simulation(&server, "");
    }
    let refused = server.send("POST", "/simulations", &[JSON], "");
    assert_eq!(refused.status, 503);
    let refused = refused.json();
    assert!(
        refused["error"]
            .as_str()
            .unwrap()
            .starts_with("256 simulations are running")
    );
    let ended = server.send("DELETE", &format!("/simulations/{first}"), &[JSON], "");
    assert_eq!(ended.status, 204);
    assert_eq!(steps(&server, &first, r#"{"steps": []}"#).status, 404);
    simulation(&server, "");
}

#[test]
fn page_may_load_nothing_from_elsewhere() {
    let (_program, server) = start();
    for path in [
        "/",
        "/look.css",
        "/page.css",
        "/page.js",
        "/plain.js",
        "/settings.js",
        "/timeline.js",
    ] {
        let file = server.get(path, &[]);
        assert_eq!(file.status, 200, "{path}");
        let policy = file.header("content-security-policy").unwrap();
        assert!(
            policy.starts_with("default-src 'none'; script-src 'self';"),
            "{policy}"
        );
        assert!(
            !file.body.contains("//cdn") && !file.body.contains("https://"),
            "{path}"
        );
    }
}
