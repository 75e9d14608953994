//! `--html`: pages that need nothing else.

use std::fs;

use crate::{
    program::{expect_refusal, file, path, run},
    traffic::{day, log},
};

fn page(args: &[&str]) -> String {
    let path = path("html");
    let output = run(&[args, &["--html", &path]].concat());
    assert_eq!(output.status.code(), Some(0));
    fs::read_to_string(path).unwrap()
}

#[track_caller]
fn expect_self_contained(page: &str) {
    assert!(page.starts_with("<!doctype html>") && page.ends_with("</html>\n"));
    for part in ["<script", "<link", "src=", "href=", "url(", "@import"] {
        assert!(!page.contains(part), "{part}");
    }
    for tag in ["section", "table", "svg", "main", "figure", "div", "p"] {
        let opened =
            page.matches(&format!("<{tag}>")).count() + page.matches(&format!("<{tag} ")).count();
        assert_eq!(opened, page.matches(&format!("</{tag}>")).count(), "{tag}");
    }
}

#[test]
fn replay_has_a_timeline_and_the_most_denied() {
    let limits = file("yml", "<no>: {}\n");
    expect_refusal(&run(&["replay", "--limits", &limits]), 2, &[]);
    let limits = file("yml", "requests: {burst: 20, count: 1, period: 3s}\n");
    let page = page(&[
        "replay",
        "--limits",
        &limits,
        &file("log", log(&day(20, 1))),
    ]);
    expect_self_contained(&page);
    for part in [
        "<rect class=\"denied\"",
        "<rect class=\"allowed\"",
        "198.51.100.7",
        "1 per 3s, 20 at once",
    ] {
        assert!(page.contains(part), "{part}");
    }
}

#[test]
fn suggestion_has_a_curve() {
    let page = page(&["suggest", &file("log", log(&day(200, 1)))]);
    expect_self_contained(&page);
    assert_eq!(page.matches("<polyline").count(), 2);
    assert_eq!(page.matches("<circle").count(), 1);
    assert!(page.contains("requests: {id: ipAddress, burst: "));
}

#[test]
fn ids_are_escaped() {
    let line = "{\"ts\":1793491200,\"id\":\"<script>alert('1')</script>&\"}\n".repeat(9);
    let limits = file("yml", "requests: {burst: 2, count: 1, period: 3s}\n");
    let page = page(&[
        "replay",
        "--limits",
        &limits,
        "--key",
        "id",
        &file("json", line),
    ]);
    expect_self_contained(&page);
    assert!(page.contains("&lt;script&gt;alert(&#39;1&#39;)&lt;/script&gt;&amp;"));
}

#[test]
fn page_that_cannot_be_written_has_exit_code_2() {
    let log = file("log", "");
    expect_refusal(
        &run(&["suggest", &log, "--html", "/nowhere/report.html"]),
        2,
        &["cannot write the report /nowhere/report.html: "],
    );
}
