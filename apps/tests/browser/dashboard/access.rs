//! Only operators with the token see the data.

use serde_json::json;

use super::page::{Dashboard, Servers, TOKEN};
use crate::programs::run_in;

const GUARDED: [(&str, &str); 6] = [
    ("GET", "/figures"),
    ("GET", "/figures?ids=true"),
    ("GET", "/inspect/limits"),
    ("GET", "/inspect/buckets/exports/alice"),
    ("DELETE", "/inspect/buckets/exports/alice"),
    ("GET", "/inspect/elsewhere"),
];

#[test]
fn figures_and_buckets_need_the_token() {
    let servers = Servers::start(&[]);
    servers.deny_exports(1, "alice");
    let right = ("authorization", format!("Bearer {TOKEN}"));
    let wrong = [
        vec![],
        vec![("authorization", "Bearer ".to_owned())],
        vec![("authorization", format!("Bearer {}", &TOKEN[1..]))],
        vec![("authorization", format!("Bearer {TOKEN}s"))],
        vec![("authorization", format!("Basic {TOKEN}"))],
        vec![("cookie", format!("token={TOKEN}"))],
        vec![right.clone(), right.clone()],
    ];
    let on_app = [right, ("x-account", "partner".to_owned())];
    for (method, path) in GUARDED {
        for headers in &wrong {
            let refused = servers.page.send(method, path, headers, "");
            assert_eq!(refused.status, 401, "{method} {path} {headers:?}");
            assert_eq!(refused.header("www-authenticate"), Some("Bearer"));
            assert_eq!(refused.json()["error"]["code"], "unauthorized");
        }
        // The server of the limits has none of this, even with the token.
        let public = servers.app.send(method, path, &on_app, "");
        assert_eq!(public.status, 404, "{path}");
    }
    assert_eq!(
        servers.ask(1, "/export", "alice"),
        (0, 1),
        "nothing was reset"
    );
    assert_eq!(servers.get("/figures").status, 200);
    assert_eq!(servers.get("/figures?ids=maybe").status, 400);
}

#[test]
fn page_is_confined_to_its_server() {
    let servers = Servers::start(&[]);
    for path in [
        "/",
        "/look.css",
        "/page.css",
        "/page.js",
        "/bucket.js",
        "/words.js",
        "/figures",
    ] {
        let file = servers.page.get(path, &[]);
        let policy = file.header("content-security-policy").unwrap();
        let start = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self';";
        assert!(policy.starts_with(start), "{path}: {policy}");
        assert!(
            policy.contains("frame-ancestors 'none'"),
            "{path}: {policy}"
        );
        assert_eq!(file.header("cache-control"), Some("no-store"), "{path}");
        assert!(
            !file.body.contains("//cdn") && !file.body.contains("https://"),
            "{path}"
        );
        assert_eq!(file.status, if path == "/figures" { 401 } else { 200 });
    }
}

#[test]
fn server_does_not_start_without_a_good_token() {
    for variables in [&[][..], &[("ADMIN_TOKEN", "short")], &[("ADMIN_TOKEN", "")]] {
        let output = run_in("dashboard", variables);
        let message = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{message}");
        assert!(message.contains("openssl rand -hex 32"), "{message}");
        assert!(output.stdout.is_empty());
    }
}

#[test]
fn page_opens_with_the_token_only() {
    let page = Dashboard::locked(&[]);
    assert!(!page.shows("#main") && !page.shows("#session"));
    for wrong in ["wrong-token-of-some-length", "ä", "with space", "\u{1f600}"] {
        page.sign_in(wrong);
        page.browser.wait_for("#gate-error:not([hidden])");
        assert!(!page.shows("#main"), "{wrong}");
        page.browser
            .run("document.getElementById('gate-error').hidden = true");
    }
    page.sign_in(TOKEN);
    page.browser.wait_for("body[data-state=open]");
    page.browser.wait_for("#main:not([hidden])");
}

#[test]
fn page_closes_and_forgets_its_figures() {
    let page = Dashboard::open();
    page.servers.deny_exports(2, "alice");
    // A reload is of the same tab.
    page.browser.open(&page.servers.page.url());
    page.browser.wait_for("body[data-state=open]");
    page.browser.click("#show-ids");
    page.browser
        .wait_until("document.body.innerHTML.includes('alice')");
    page.look_up("exports", "alice").unwrap();

    page.browser.click("#leave");
    page.browser.wait_for("body[data-state=locked]");
    page.browser.wait_for("#token:focus");
    assert!(!page.shows("#main"));
    let rest = "const fields = [...document.querySelectorAll('input')].map(({ value }) => value);
        return [sessionStorage.length, (document.body.innerHTML + fields).includes('alice')]";
    assert_eq!(page.browser.run(rest), json!([0, false]));
    page.browser.open(&page.servers.page.url());
    page.browser.wait_for("#token:focus");
}

#[test]
fn server_with_another_token_closes_the_page() {
    let page = Dashboard::open();
    page.browser
        .run("sessionStorage.setItem('token', 'the-token-of-yesterday')");
    page.browser.open(&page.servers.page.url());
    page.browser.wait_for("#gate-error:not([hidden])");
    let error = page.content("#gate-error");
    assert_eq!(error, "The server does not accept this token.");
}
