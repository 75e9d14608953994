//! Proxies that are believed by their addresses.

use tollgate::key::{Proxies, ProxyHeader};

use super::{FORWARDED, XFF, assert_clients, client, from, from_nowhere, lines, trusted};

const INVALID: Result<&str, &str> = Err("has no valid IP address where the client's should be");
const ALL_TRUSTED: Result<&str, &str> = Err("contains only trusted proxies");

#[test]
fn untrusted_peer_is_the_client_whatever_it_sends() {
    let values = [
        "6.6.6.6",
        "for=6.6.6.6",
        "10.0.0.1",
        "",
        "\"",
        "6.6.6.6, 10.0.0.1",
    ];
    let kinds = [
        (ProxyHeader::XForwardedFor, XFF),
        (ProxyHeader::Forwarded, FORWARDED),
        (ProxyHeader::single("x-real-ip"), "x-real-ip"),
    ];
    for (kind, name) in kinds {
        let proxies = trusted(kind);
        for peer in [
            "203.0.113.7",
            "9.255.255.255",
            "11.0.0.0",
            "2001:db8::7",
            "fc00::1",
        ] {
            assert_eq!(client(&proxies, &from(peer, &[])).as_deref(), Ok(peer));
            for value in values {
                let once = lines(peer, name, &[value]);
                assert_eq!(client(&proxies, &once).as_deref(), Ok(peer), "{value}");
                let twice = lines(peer, name, &[value, value]);
                assert_eq!(client(&proxies, &twice).as_deref(), Ok(peer), "{value}");
            }
        }
    }
}

#[test]
fn mapped_peer_is_trusted_as_the_ipv4_address_that_it_is() {
    let proxies = trusted(ProxyHeader::XForwardedFor);
    let via = |peer| client(&proxies, &lines(peer, XFF, &["203.0.113.7"]));
    assert_eq!(via("::ffff:10.0.0.1").as_deref(), Ok("203.0.113.7"));
    assert_eq!(via("::ffff:a00:1").as_deref(), Ok("203.0.113.7"));
    assert_eq!(via("::ffff:11.0.0.1").as_deref(), Ok("11.0.0.1"));
    assert_eq!(via("fd00::1").as_deref(), Ok("203.0.113.7"));
}

#[test]
fn first_untrusted_address_from_the_right_is_the_client() {
    let cases: [(&[&str], _); 14] = [
        (&["203.0.113.7"], Ok("203.0.113.7")),
        (&["203.0.113.7, 10.1.1.1"], Ok("203.0.113.7")),
        (&["203.0.113.7,10.1.1.1,\tfd00::5 "], Ok("203.0.113.7")),
        (&["6.6.6.6, 203.0.113.7"], Ok("203.0.113.7")),
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
        (&["2001:db8::7, [fd00::1]:80"], Ok("2001:db8::7")),
        (&["[2001:DB8::0007]:4711"], Ok("2001:db8::7")),
        (&["unknown, 203.0.113.7"], Ok("203.0.113.7")),
        (&["a, ,1.1.1.1"], Ok("1.1.1.1")),
    ];
    assert_clients(&trusted(ProxyHeader::XForwardedFor), XFF, &cases);
}

#[test]
fn invalid_item_is_never_walked_over() {
    let cases: [(&[&str], _); 12] = [
        (&["203.0.113.7, unknown"], INVALID),
        (&["203.0.113.7, unknown, 10.1.1.1"], INVALID),
        (&["203.0.113.7,"], INVALID),
        (&["203.0.113.7, ,10.1.1.1"], INVALID),
        (&["203.0.113.7", ""], INVALID),
        (&["203.0.113.7", "10.1.1.1, _hidden"], INVALID),
        (&["203.0.113.7, 0.0.0.0"], INVALID),
        (&["203.0.113.7, ::"], INVALID),
        (&["203.0.113.7, 203.0.113.08"], INVALID),
        (&["203.0.113.7, \u{e9}"], INVALID),
        (&[""], INVALID),
        (&[" , "], INVALID),
    ];
    assert_clients(&trusted(ProxyHeader::XForwardedFor), XFF, &cases);
}

#[test]
fn proxy_that_names_no_client_leaves_the_request_without_an_id() {
    let absent = Err("`x-forwarded-for` is missing in a request from a trusted proxy");
    let cases: [(&[&str], _); 4] = [
        (&[], absent),
        (&["10.1.1.1"], ALL_TRUSTED),
        (&["10.1.1.1, fd00::1"], ALL_TRUSTED),
        (&["10.1.1.1", "::ffff:10.1.1.2"], ALL_TRUSTED),
    ];
    assert_clients(&trusted(ProxyHeader::XForwardedFor), XFF, &cases);
}

#[test]
fn only_the_named_header_is_looked_at() {
    let all: [(&str, &[u8]); 5] = [
        (XFF, b"192.0.2.1"),
        (FORWARDED, b"for=192.0.2.2"),
        ("x-real-ip", b"192.0.2.3"),
        ("cf-connecting-ip", b"192.0.2.4"),
        ("true-client-ip", b"192.0.2.5"),
    ];
    let kinds = [
        (ProxyHeader::XForwardedFor, 0),
        (ProxyHeader::Forwarded, 1),
        (ProxyHeader::single("X-Real-IP"), 2),
        (ProxyHeader::single("cf-connecting-ip"), 3),
    ];
    for (kind, index) in kinds {
        for proxies in [trusted(kind.clone()), Proxies::hops(1, kind.clone())] {
            let found = client(&proxies, &from("10.0.0.1", &all));
            assert_eq!(found, Ok(format!("192.0.2.{}", index + 1)));
            let others: Vec<_> = all.iter().copied().filter(|it| *it != all[index]).collect();
            assert!(
                client(&proxies, &from("10.0.0.1", &others)).is_err(),
                "{kind:?}"
            );
        }
    }
}

#[test]
fn unknown_peer_is_not_believed_unless_it_comes_over_a_trusted_unix_socket() {
    let proxies = trusted(ProxyHeader::XForwardedFor);
    let request = from_nowhere(&[(XFF, b"6.6.6.6, 203.0.113.7, 10.1.1.1")]);
    let reason = client(&proxies, &request).unwrap_err();
    assert!(
        reason.contains("does not pass on the peer's address"),
        "{reason}"
    );
    assert!(reason.contains("`Proxies::trust_unix_socket`"), "{reason}");

    let proxies = proxies.trust_unix_socket();
    assert_eq!(client(&proxies, &request).as_deref(), Ok("203.0.113.7"));
    assert!(client(&proxies, &from_nowhere(&[])).is_err());
    let direct = lines("203.0.113.9", XFF, &["6.6.6.6"]);
    assert_eq!(client(&proxies, &direct).as_deref(), Ok("203.0.113.9"));
}
