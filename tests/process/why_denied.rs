//! The way from a client's complaint to the reason, by the commands of `docs/why-denied.md`, in logs as the README sets them up.

use std::{
    collections::BTreeMap,
    env, fs,
    path::Path,
    process::{Command, Output},
};

use http::StatusCode;
use serde_json::Value;
use tollgate::{ClientIp, Limit, RateLimitLayer, id::Id};
use tracing::Level;

use crate::{
    ALONE,
    support::{Folder, send, text},
};

/// Refuses a client, and writes the reference of its refusal to standard error.
async fn refuse() {
    // The harness may have begun a line.
    println!();
    let layer = RateLimitLayer::new(Limit::per_hour(1), ClientIp::peer());
    assert_eq!(send(&layer, "203.0.113.7").await.status(), StatusCode::OK);
    for client in ["203.0.113.7", "203.0.113.70", "203.0.113.70"] {
        let refused = text(send(&layer, client).await).await;
        if client == "203.0.113.7" {
            let document: Value = serde_json::from_str(&refused).unwrap();
            eprintln!("{}", document["refusal-id"].as_str().unwrap());
        }
    }
}

#[tokio::test]
async fn server_that_logs_lines() {
    if env::var_os(ALONE).is_some() {
        tracing_subscriber::fmt::init();
        refuse().await;
    }
}

#[tokio::test]
async fn server_that_logs_json() {
    if env::var_os(ALONE).is_some() {
        let log = tracing_subscriber::fmt().json();
        log.with_max_level(Level::DEBUG).init();
        refuse().await;
    }
}

#[test]
fn process_that_shows_a_secret_id() {
    if env::var_os(ALONE).is_some() {
        eprintln!("{}", Id::from("sk-123").secret().shown());
    }
}

/// Runs one of the tests above as a process of its own.
fn run_alone(test: &str, variables: &[(&str, &str)]) -> Output {
    let mut command = Command::new(env::current_exe().unwrap());
    let test = format!("why_denied::{test}");
    command.args(["--exact", "--nocapture", &test]);
    command.env_remove("NO_COLOR").env(ALONE, "1");
    let output = command.envs(variables.iter().copied()).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    output
}

/// Runs one of the servers above, writes its log into a file, and returns the reference of the refusal.
fn log(server: &str, variables: &[(&str, &str)], file: &Path) -> String {
    let output = run_alone(server, variables);
    // The other lines are those of the test harness.
    let stdout = String::from_utf8(output.stdout).unwrap();
    let events = stdout.lines().filter(|line| line.contains("tollgate::"));
    fs::write(
        file,
        events.flat_map(|line| [line, "\n"]).collect::<String>(),
    )
    .unwrap();
    String::from_utf8(output.stderr).unwrap().trim().to_owned()
}

/// The commands of the page's first block.
fn commands() -> Vec<String> {
    let page = fs::read_to_string("docs/why-denied.md").unwrap();
    let block = page.split("```console\n").nth(1).unwrap();
    let (block, _) = block.split_once("```").unwrap();
    let commands = block.lines().filter_map(|line| line.strip_prefix("$ "));
    commands.map(str::to_owned).collect()
}

/// Returns the output of a command in a folder.
fn run(command: &str, folder: &Folder) -> String {
    let mut shell = Command::new("sh");
    let output = shell
        .args(["-c", command])
        .current_dir(folder.path("."))
        .output();
    let output = output.unwrap();
    assert!(output.status.success(), "{command}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn commands_of_the_page_find_the_refusal_in_logs_as_the_readme_sets_them_up() {
    let folder = Folder::new();
    let coloured = [("RUST_LOG", "info,tollgate::response=debug")];
    let plain = [coloured[0], ("NO_COLOR", "1")];
    let in_json = log("server_that_logs_json", &[], &folder.path("app.json"));
    for (variables, has_colours) in [(&coloured[..], true), (&plain[..], false)] {
        let file = folder.path("app.log");
        let in_lines = log("server_that_logs_lines", variables, &file);
        let lines = fs::read_to_string(file).unwrap();
        assert_eq!(lines.contains('\u{1b}'), has_colours, "{lines}");

        let mut ran = BTreeMap::new();
        for command in commands() {
            let (program, reference) = match command.split_once(' ') {
                Some(("jq", _)) => ("jq", &in_json),
                _ => ("grep", &in_lines),
            };
            let printed = run(&command.replace("4zk9w2m7q1xd", reference), &folder);
            assert_eq!(printed.lines().count(), 1, "{command}: {printed}");
            assert!(printed.contains(&**reference), "{command}: {printed}");
            assert!(!printed.contains("203.0.113.70"), "{command}: {printed}");
            *ran.entry(program).or_insert(0) += 1;
        }
        assert_eq!(ran, BTreeMap::from([("grep", 2), ("jq", 2)]));
    }
}

#[test]
fn each_process_shows_another_hash_of_a_secret_id() {
    let shown = || {
        let output = run_alone("process_that_shows_a_secret_id", &[]);
        let shown = String::from_utf8(output.stderr).unwrap();
        assert!(shown.starts_with("redacted-"), "{shown}");
        shown
    };
    assert_ne!(shown(), shown());
}
