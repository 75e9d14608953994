//! Headers that are meant to hurt.

use tollgate::key::{Proxies, ProxyHeader};

use super::{FORWARDED, XFF, client, from, lines, trusted};

/// A header of `n` items, and then `last`.
fn long(n: usize, item: &str, last: &str) -> String {
    format!("{}{last}", format!("{item}, ").repeat(n))
}

#[test]
fn ten_thousand_items_of_a_client_change_nothing() {
    for item in ["6.6.6.6", "10.6.6.6", "", "\"", "for=\"", "\\\""] {
        let header = long(10_000, item, "203.0.113.7");
        let xff = trusted(ProxyHeader::XForwardedFor);
        let found = client(&xff, &lines("10.0.0.1", XFF, &[&header]));
        assert_eq!(found.as_deref(), Ok("203.0.113.7"), "{item}");

        let header = long(10_000, item, r#"for="203.0.113.7:80""#);
        let forwarded = trusted(ProxyHeader::Forwarded);
        let found = client(&forwarded, &lines("10.0.0.1", FORWARDED, &[&header]));
        assert_eq!(found.as_deref(), Ok("203.0.113.7"), "{item}");
    }
}

#[test]
fn ten_thousand_lines_of_a_client_change_nothing() {
    let mut values = vec!["6.6.6.6"; 10_000];
    values.push("203.0.113.7");
    let proxies = trusted(ProxyHeader::XForwardedFor);
    let found = client(&proxies, &lines("10.0.0.1", XFF, &values));
    assert_eq!(found.as_deref(), Ok("203.0.113.7"));
}

#[test]
fn walk_over_trusted_items_ends_at_64() {
    let proxies = trusted(ProxyHeader::XForwardedFor);
    let behind = |n| format!("203.0.113.7{}", ", 10.1.1.1".repeat(n));
    let found = |n| client(&proxies, &lines("10.0.0.1", XFF, &[&behind(n)]));
    assert_eq!(found(63).as_deref(), Ok("203.0.113.7"));
    for n in [64, 10_000] {
        let reason = found(n).unwrap_err();
        assert!(
            reason.contains("at most 64 of its items are read"),
            "{reason}"
        );
    }
    let hops = Proxies::hops(64, ProxyHeader::XForwardedFor);
    let found = client(&hops, &lines("10.0.0.1", XFF, &[&behind(63)]));
    assert_eq!(found.as_deref(), Ok("203.0.113.7"));
}

#[test]
fn reasons_repeat_nothing_of_what_was_sent() {
    let hostile = "<script>".repeat(1000);
    for (kind, name) in [
        (ProxyHeader::XForwardedFor, XFF),
        (ProxyHeader::Forwarded, FORWARDED),
        (ProxyHeader::single("x-real-ip"), "x-real-ip"),
    ] {
        for proxies in [trusted(kind.clone()), Proxies::hops(1, kind)] {
            let reason = client(&proxies, &lines("10.0.0.1", name, &[&hostile])).unwrap_err();
            assert!(!reason.contains("script") && reason.len() < 300, "{reason}");
        }
    }
}

#[test]
fn bytes_beyond_ascii_are_no_address() {
    let values: [&[u8]; 6] = [
        b"\xff",
        b"203.0.113.7\xa0",
        b"\xef\xbc\x92.0.113.7",
        b"for=\"\xff\"",
        b"for=203.0.113.7;\xff=1",
        b"[2001:db8::7%\xc3\xa9]",
    ];
    for value in values {
        for (kind, name) in [
            (ProxyHeader::XForwardedFor, XFF),
            (ProxyHeader::Forwarded, FORWARDED),
        ] {
            let request = from("10.0.0.1", &[(name, value)]);
            assert!(client(&trusted(kind), &request).is_err(), "{value:?}");
        }
    }
    let request = from("10.0.0.1", &[(XFF, b"\xff, \xc3\xa9, 203.0.113.7")]);
    let found = client(&trusted(ProxyHeader::XForwardedFor), &request);
    assert_eq!(found.as_deref(), Ok("203.0.113.7"));
}
