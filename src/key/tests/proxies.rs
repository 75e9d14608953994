//! The client's address behind proxies, and hostile headers.

use allocation_counter::measure;

use super::{from, id, request};
use crate::key::{ClientIp, Proxies, ProxyHeader};

pub(super) const XFF: &str = "x-forwarded-for";
pub(super) const FORWARDED: &str = "forwarded";

pub(super) fn trusted(header: ProxyHeader) -> Proxies {
    Proxies::trusted(["10.0.0.0/8", "fd00::/8"], header).unwrap()
}

pub(super) fn client(proxies: &Proxies, parts: &http::request::Parts) -> Result<String, String> {
    id(&ClientIp::behind(proxies.clone()).exact(), parts)
}

/// Returns the client of a request from a peer, with these lines of one header.
fn via(proxies: &Proxies, peer: &str, name: &str, lines: &[&str]) -> Result<String, String> {
    let headers: Vec<_> = lines.iter().map(|line| (name, line.as_bytes())).collect();
    client(proxies, &from(peer, &headers))
}

pub(super) type Case<'a> = (&'a [&'a str], Result<&'a str, &'a str>);

/// Checks the client, or the reason why there is none, of requests from a trusted proxy with these lines of a header.
#[track_caller]
pub(super) fn assert_clients(proxies: &Proxies, name: &str, cases: &[Case<'_>]) {
    for (lines, expected) in cases {
        let found = via(proxies, "10.0.0.1", name, lines);
        match (&found, expected) {
            (Ok(ip), Ok(expected)) => assert_eq!(ip, expected, "{lines:?}"),
            (Err(reason), Err(expected)) => {
                assert!(
                    reason.starts_with("500 ") && reason.contains(expected),
                    "{lines:?}: {reason}"
                );
            }
            _ => panic!("{lines:?}: {found:?}, not {expected:?}"),
        }
    }
}

pub(super) const INVALID: Result<&str, &str> =
    Err("has no valid IP address where the client's should be");

#[test]
fn untrusted_peer_is_the_client_whatever_it_sends() {
    for (header, name) in [
        (ProxyHeader::XForwardedFor, XFF),
        (ProxyHeader::Forwarded, FORWARDED),
        (ProxyHeader::single("x-real-ip"), "x-real-ip"),
    ] {
        let proxies = trusted(header);
        for peer in [
            "203.0.113.7",
            "9.255.255.255",
            "11.0.0.0",
            "2001:db8::7",
            "fc00::1",
        ] {
            for lines in [
                &[][..],
                &["6.6.6.6"],
                &["for=6.6.6.6"],
                &["10.0.0.1"],
                &[""],
                &["\""],
                &["6.6.6.6, 10.0.0.1"],
                &["6.6.6.6", "6.6.6.6"],
            ] {
                assert_eq!(via(&proxies, peer, name, lines).unwrap(), peer, "{lines:?}");
            }
        }
    }
}

#[test]
fn peer_that_stands_for_an_ipv4_address_is_trusted_as_that() {
    let proxies = trusted(ProxyHeader::XForwardedFor);
    for (peer, found) in [
        ("::ffff:10.0.0.1", "203.0.113.7"),
        ("::ffff:a00:1", "203.0.113.7"),
        ("64:ff9b::10.0.0.1", "203.0.113.7"),
        ("fd00::1", "203.0.113.7"),
        ("::ffff:11.0.0.1", "11.0.0.1"),
    ] {
        assert_eq!(
            via(&proxies, peer, XFF, &["203.0.113.7"]).unwrap(),
            found,
            "{peer}"
        );
    }
}

#[test]
fn first_untrusted_address_from_the_right_is_the_client() {
    assert_clients(
        &trusted(ProxyHeader::XForwardedFor),
        XFF,
        &[
            (&["203.0.113.7"], Ok("203.0.113.7")),
            (&["203.0.113.7,10.1.1.1,\tfd00::5 "], Ok("203.0.113.7")),
            (
                &["6.6.6.6, 10.6.6.6, 203.0.113.7, 10.1.1.1"],
                Ok("203.0.113.7"),
            ),
            // A client that claims to be a proxy of ours is skipped only if it really is one.
            (&["10.6.6.6, 203.0.113.7"], Ok("203.0.113.7")),
            (&["6.6.6.6", "203.0.113.7"], Ok("203.0.113.7")),
            (&["6.6.6.6, 203.0.113.7", "10.1.1.1"], Ok("203.0.113.7")),
            (
                &["203.0.113.7", "10.1.1.1, 10.1.1.2", "fd00::1"],
                Ok("203.0.113.7"),
            ),
            (&["::ffff:203.0.113.7, ::ffff:10.1.1.1"], Ok("203.0.113.7")),
            (
                &["64:ff9b::203.0.113.7, 64:ff9b::10.1.1.1"],
                Ok("203.0.113.7"),
            ),
            (&["2001:db8::7, [fd00::1]:80"], Ok("2001:db8::7")),
            (&["[2001:DB8::0007]:4711"], Ok("2001:db8::7")),
            (&["unknown, 203.0.113.7"], Ok("203.0.113.7")),
            (&["a, ,1.1.1.1"], Ok("1.1.1.1")),
        ],
    );
}

#[test]
fn farthest_address_is_the_client_if_all_are_trusted() {
    assert_clients(
        &trusted(ProxyHeader::XForwardedFor),
        XFF,
        &[
            // `curl` through nginx on its own machine, or a client in the proxies' network.
            (&["10.0.0.1"], Ok("10.0.0.1")),
            (&["10.1.1.1, fd00::1"], Ok("10.1.1.1")),
            (&["10.1.1.1", "::ffff:10.1.1.2"], Ok("10.1.1.1")),
            (&["unknown, 10.1.1.1"], INVALID),
        ],
    );
    let forwarded: [Case<'_>; 1] = [(&[r#"for=10.1.1.1, for="[fd00::1]""#], Ok("10.1.1.1"))];
    assert_clients(&trusted(ProxyHeader::Forwarded), FORWARDED, &forwarded);
    let proxies = Proxies::trusted(["127.0.0.1"], ProxyHeader::XForwardedFor).unwrap();
    let local = via(&proxies, "127.0.0.1", XFF, &["127.0.0.1"]);
    assert_eq!(local.unwrap(), "127.0.0.1");
    let bypassed = via(&proxies, "127.0.0.1", XFF, &[]).unwrap_err();
    assert!(
        bypassed.contains("if the request has not passed the proxy"),
        "{bypassed}"
    );
}

#[test]
fn invalid_item_is_never_walked_over() {
    let cases = [
        &["203.0.113.7, unknown"][..],
        &["203.0.113.7, unknown, 10.1.1.1"],
        &["203.0.113.7,"],
        &["203.0.113.7, ,10.1.1.1"],
        &["203.0.113.7", ""],
        &["203.0.113.7", "10.1.1.1, _hidden"],
        &["203.0.113.7, 0.0.0.0"],
        &["203.0.113.7, ::"],
        &["203.0.113.7, 203.0.113.08"],
        &["203.0.113.7, \u{e9}"],
        &[""],
        &[" , "],
    ]
    .map(|lines| (lines, INVALID));
    assert_clients(&trusted(ProxyHeader::XForwardedFor), XFF, &cases);
}

#[test]
fn only_the_named_header_is_read_and_it_must_be_there() {
    let all: [(&str, &[u8]); 5] = [
        (XFF, b"192.0.2.1"),
        (FORWARDED, b"for=192.0.2.2"),
        ("x-real-ip", b"192.0.2.3"),
        ("cf-connecting-ip", b"192.0.2.4"),
        ("true-client-ip", b"192.0.2.5"),
    ];
    for (header, index) in [
        (ProxyHeader::XForwardedFor, 0),
        (ProxyHeader::Forwarded, 1),
        (ProxyHeader::single("X-Real-IP"), 2),
        (ProxyHeader::single("cf-connecting-ip"), 3),
    ] {
        let (name, _) = all[index];
        let others: Vec<_> = all
            .iter()
            .copied()
            .filter(|other| *other != all[index])
            .collect();
        for proxies in [trusted(header.clone()), Proxies::hops(1, header.clone())] {
            let found = client(&proxies, &from("10.0.0.1", &all));
            assert_eq!(found, Ok(format!("192.0.2.{}", index + 1)));
            let reason = client(&proxies, &from("10.0.0.1", &others)).unwrap_err();
            assert!(
                reason.starts_with(&format!("500 `{name}` is missing")),
                "{reason}"
            );
        }
    }
}

#[test]
fn unknown_peer_is_trusted_on_a_unix_socket_alone() {
    let proxies = trusted(ProxyHeader::XForwardedFor);
    let unknown = request(&[(XFF, b"6.6.6.6, 203.0.113.7, 10.1.1.1")]);
    let reason = client(&proxies, &unknown).unwrap_err();
    assert!(
        reason.contains("does not pass on the peer's address"),
        "{reason}"
    );
    assert!(reason.contains("`Proxies::trust_unix_socket`"), "{reason}");
    let proxies = proxies.trust_unix_socket();
    assert_eq!(client(&proxies, &unknown).unwrap(), "203.0.113.7");
    assert_eq!(
        via(&proxies, "0.0.0.0", XFF, &["203.0.113.7"]).unwrap(),
        "203.0.113.7"
    );
    assert!(client(&proxies, &request(&[])).is_err());
    let direct = via(&proxies, "203.0.113.9", XFF, &["6.6.6.6"]);
    assert_eq!(direct.unwrap(), "203.0.113.9");
}

#[test]
fn forwarded_is_read_to_the_letter() {
    assert_clients(
        &trusted(ProxyHeader::Forwarded),
        FORWARDED,
        &[
            (
                &["For=203.0.113.7;Proto=https;By=10.0.0.1"],
                Ok("203.0.113.7"),
            ),
            (
                &[r#"for="203.0.113.7:_port";host="a,b;c""#],
                Ok("203.0.113.7"),
            ),
            (
                &[r#"for=_x, for="[2001:db8::1%25eth0]:80";proto=https"#],
                Ok("2001:db8::1"),
            ),
            (
                &[r#"for=203.0.113.7, for="10.1.1.1:80", for="[fd00::1]""#],
                Ok("203.0.113.7"),
            ),
            (
                &["for=6.6.6.6", "for=203.0.113.7", "by=_x;for=10.1.1.1"],
                Ok("203.0.113.7"),
            ),
            (&["for=203.0.113.7, for=unknown"], INVALID),
            (&["for=203.0.113.7,"], INVALID),
            (&["203.0.113.7"], INVALID),
            (&["for=6.6.6.6;for=203.0.113.7"], INVALID),
        ],
    );
}

#[test]
fn quote_left_open_by_a_client_hides_nothing_that_a_proxy_appends() {
    assert_clients(
        &trusted(ProxyHeader::Forwarded),
        FORWARDED,
        &[
            (&[r#"For="1.1.1.1, For=2.2.2.2"#], Ok("2.2.2.2")),
            (
                &[r#"For="1.1.1.1, for="[2001:db8::7]:80""#],
                Ok("2001:db8::7"),
            ),
            (
                &[r#"For="1.1.1.1, For="2.2.2.2", for=10.1.1.1"#],
                Ok("2.2.2.2"),
            ),
            (&[r#"For="1.1.1.1"#, "For=2.2.2.2"], Ok("2.2.2.2")),
            (&[r#"For="1.1.1.1\"#, r#"For="2.2.2.2""#], Ok("2.2.2.2")),
            (&[r#"For="1.1.1.1\, For=2.2.2.2"#], Ok("2.2.2.2")),
            (&[r#"x=", for=6.6.6.6", for=2.2.2.2"#], Ok("2.2.2.2")),
            (&[r#""""", for=2.2.2.2;host="a\"b,c\\""#], Ok("2.2.2.2")),
            (&[r#"for=6.6.6.6;x="\", for=2.2.2.2"#], Ok("2.2.2.2")),
        ],
    );
}

#[test]
fn ten_thousand_items_or_lines_of_a_client_change_nothing() {
    let long = |item: &str, last: &str| format!("{}{last}", format!("{item}, ").repeat(10_000));
    for item in ["6.6.6.6", "10.6.6.6", "", "\"", "for=\"", "\\\"", ";"] {
        for (header, name, last) in [
            (ProxyHeader::XForwardedFor, XFF, "203.0.113.7"),
            (ProxyHeader::Forwarded, FORWARDED, r#"for="203.0.113.7:80""#),
        ] {
            let found = via(&trusted(header), "10.0.0.1", name, &[&long(item, last)]);
            assert_eq!(found.unwrap(), "203.0.113.7", "{item}");
        }
    }
    let mut lines = vec!["6.6.6.6"; 10_000];
    lines.push("203.0.113.7");
    let found = via(
        &trusted(ProxyHeader::XForwardedFor),
        "10.0.0.1",
        XFF,
        &lines,
    );
    assert_eq!(found.unwrap(), "203.0.113.7");
}

#[test]
fn walk_over_trusted_items_ends_at_64() {
    let behind = |n| format!("203.0.113.7{}", ", 10.1.1.1".repeat(n));
    let found = |proxies: &Proxies, n| via(proxies, "10.0.0.1", XFF, &[&behind(n)]);
    let proxies = trusted(ProxyHeader::XForwardedFor);
    assert_eq!(found(&proxies, 63).unwrap(), "203.0.113.7");
    for n in [64, 10_000] {
        let reason = found(&proxies, n).unwrap_err();
        assert!(
            reason.contains("at most 64 of its items are read"),
            "{reason}"
        );
    }
    let hops = Proxies::hops(64, ProxyHeader::XForwardedFor);
    assert_eq!(found(&hops, 63).unwrap(), "203.0.113.7");
    let all = vec!["10.1.1.1"; 64].join(",");
    assert_eq!(via(&proxies, "10.0.0.1", XFF, &[&all]).unwrap(), "10.1.1.1");
}

#[test]
fn hostile_headers_are_not_copied_into_errors() {
    let element: String = (0..5000).map(|i| format!("x{i}=1;")).collect();
    for value in [
        "<script>".repeat(1000),
        ";".repeat(60_000),
        "\"".repeat(60_000),
        "\\".repeat(60_000),
        "10.1.1.1, ".repeat(5000),
        format!("for={}", "x".repeat(60_000)),
        format!("for=\"{}\"", "x".repeat(60_000)),
        element,
    ] {
        for (header, name) in [
            (ProxyHeader::XForwardedFor, XFF),
            (ProxyHeader::Forwarded, FORWARDED),
            (ProxyHeader::single("x-real-ip"), "x-real-ip"),
        ] {
            let parts = from("10.0.0.1", &[(name, value.as_bytes())]);
            for proxies in [trusted(header.clone()), Proxies::hops(1, header)] {
                let reason = client(&proxies, &parts).unwrap_err();
                assert!(!reason.contains("script") && reason.len() < 500, "{reason}");
                let extractor = ClientIp::behind(proxies);
                let used = measure(|| drop(crate::key::KeyExtractor::extract(&extractor, &parts)));
                assert!(used.bytes_total < 1000, "{} bytes", used.bytes_total);
            }
        }
    }
}

#[test]
fn bytes_beyond_ascii_are_no_address() {
    for value in [
        &b"\xff"[..],
        b"203.0.113.7\xa0",
        b"\xef\xbc\x92.0.113.7",
        b"for=\"\xff\"",
        b"[2001:db8::7%\xc3\xa9]",
    ] {
        for (header, name) in [
            (ProxyHeader::XForwardedFor, XFF),
            (ProxyHeader::Forwarded, FORWARDED),
        ] {
            let parts = from("10.0.0.1", &[(name, value)]);
            assert!(client(&trusted(header), &parts).is_err(), "{value:?}");
        }
    }
    let parts = from("10.0.0.1", &[(XFF, b"\xff, \xc3\xa9, 203.0.113.7")]);
    let found = client(&trusted(ProxyHeader::XForwardedFor), &parts);
    assert_eq!(found.unwrap(), "203.0.113.7");
}

#[test]
fn lists_may_be_owned_and_hold_single_addresses() {
    let list = vec![String::from("10.0.0.1"), String::from("fd00::1/128")];
    let proxies = Proxies::trusted(list, ProxyHeader::XForwardedFor).unwrap();
    for (peer, found) in [
        ("10.0.0.1", "203.0.113.7"),
        ("fd00::1", "203.0.113.7"),
        ("10.0.0.2", "10.0.0.2"),
        ("fd00::2", "fd00::2"),
    ] {
        assert_eq!(via(&proxies, peer, XFF, &["203.0.113.7"]).unwrap(), found);
    }
}
