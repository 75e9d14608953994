//! The most denied clients, whose ids the page hides until an operator asks for them.

use serde_json::json;

use super::page::Dashboard;

#[test]
fn most_denied_come_first_and_ids_are_redacted_until_asked() {
    let page = Dashboard::open();
    for (denials, account) in [(2, "zoe"), (7, "alice"), (4, "bob")] {
        page.servers.deny_exports(denials, account);
    }
    assert_eq!(page.servers.ask(3, "/", "spammer"), (0, 3));
    page.wait_for_text("#denied", "16");
    page.wait_for_clients(4);
    let redacted = page.denied();
    let ids: Vec<_> = redacted.iter().map(|row| row[0].as_str()).collect();
    assert!(ids.iter().all(|id| id.starts_with("client ")), "{ids:?}");
    let counts: Vec<_> = redacted.iter().map(|row| [&*row[1], &*row[2]]).collect();
    let expected = [
        ["exports", "7"],
        ["exports", "4"],
        ["requests", "3"],
        ["exports", "2"],
    ];
    assert_eq!(counts, expected);
    let html = page
        .browser
        .run("return document.documentElement.outerHTML");
    let html = html.as_str().unwrap();
    let sent = page.servers.get("/figures").body + &page.servers.get("/figures?ids=false").body;
    for account in ["zoe", "alice", "bob", "spammer"] {
        assert!(
            !html.contains(account) && !sent.contains(account),
            "{account}"
        );
    }

    page.browser.click("#show-ids");
    page.browser
        .wait_until("document.querySelector('#clients button')");
    let shown: Vec<_> = page.denied().into_iter().map(|[id, ..]| id).collect();
    assert_eq!(shown, ["alice", "bob", "spammer", "zoe"]);
    page.browser.click("#show-ids");
    page.browser.wait_until("document.querySelectorAll('#clients tr').length === 4 && !document.querySelector('#clients button')");
    assert_eq!(page.denied(), redacted, "the same hash for the same id");
}

#[test]
fn ids_are_text_and_never_markup() {
    let page = Dashboard::open();
    let ids = [
        "<img/src=x/onerror=document.title='hacked'>",
        "\"><script>document.title='hacked'</script>",
        "<b>bold</b>",
        "&lt;i&gt;",
        "javascript:document.title='hacked'",
    ];
    for (nth, id) in ids.iter().enumerate() {
        page.servers.deny_exports(9 - nth, id);
    }
    page.browser.click("#show-ids");
    page.browser
        .wait_until("document.querySelectorAll('#clients button').length === 5");
    let shown: Vec<_> = page.denied().into_iter().map(|[id, ..]| id).collect();
    assert_eq!(shown, ids);
    for (nth, id) in ids.iter().enumerate() {
        page.browser
            .run("document.getElementById('found-key').textContent = ''");
        page.browser
            .click(&format!("#clients tr:nth-child({}) button", nth + 1));
        page.wait_for_text("#found-key", &format!("exports:{id}"));
        page.browser.click("#reset");
        page.wait_for_text("#confirm", &format!("Reset exports:{id}"));
        page.browser.click("#confirm");
        page.wait_for_text("#done", &format!("Reset exports:{id}."));
    }
    let markup = "return [document.title, document.querySelectorAll('img, b > b, #clients b, #clients script, #found script').length]";
    assert_eq!(page.browser.run(markup), json!(["Rate limits, live", 0]));
    assert_eq!(page.browser.complaints(), [] as [serde_json::Value; 0]);
}
