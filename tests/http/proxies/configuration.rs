//! Mistakes in the list of trusted proxies, each with what to change.

use tollgate::{
    ClientIp,
    key::{Extracted, Ipv6Range, KeyExtractor, Proxies, ProxiesError, ProxyHeader},
};

use super::{XFF, client, from, lines, trusted};

fn error(entry: &str) -> String {
    let list = ["192.0.2.1", entry];
    let error = Proxies::trusted(list, ProxyHeader::XForwardedFor).unwrap_err();
    error.to_string()
}

#[test]
fn mistakes_name_the_entry_and_the_right_one() {
    let cases = [
        (
            "10.1.2.3/8",
            "`10.1.2.3/8` has bits set beyond its prefix: write `10.0.0.0/8`, or a single \
             address",
        ),
        (
            "fd00::1/8",
            "`fd00::1/8` has bits set beyond its prefix: write `fd00::/8`, or a single address",
        ),
        (
            "::ffff:10.0.0.0/104",
            "`::ffff:10.0.0.0/104` is IPv4-mapped: write `10.0.0.0/8`",
        ),
        (
            "::ffff:10.1.2.3/104",
            "`::ffff:10.1.2.3/104` is IPv4-mapped: write `10.0.0.0/8`",
        ),
        (
            "::ffff:10.1.2.3",
            "`::ffff:10.1.2.3` is IPv4-mapped: write `10.1.2.3`",
        ),
    ];
    for (entry, message) in cases {
        assert_eq!(error(entry), message);
    }
}

#[test]
fn everyone_is_not_to_be_trusted() {
    for entry in [
        "0.0.0.0/0",
        "::/0",
        "10.0.0.0/0",
        "::ffff:0.0.0.0/96",
        "::ffff:1.2.3.4/96",
    ] {
        let message = format!(
            "`{entry}` trusts everyone, so clients could choose their address: list the ranges of \
             the proxies, or use `Proxies::hops`"
        );
        assert_eq!(error(entry), message);
    }
}

#[test]
fn what_is_no_range_is_refused() {
    let entries = [
        "",
        " 10.0.0.0/8",
        "10.0.0.0/",
        "10.0.0.0/33",
        "10.0.0.0/+8",
        "10.0.0.0/8/8",
        "10.0.0.0/255.0.0.0",
        "10.0.0/8",
        "010.0.0.0/8",
        "fd00::/129",
        "[fd00::]/8",
        "fe80::1%eth0",
        "10.0.0.1:80",
        "localhost",
        "/8",
    ];
    for entry in entries {
        let message = format!(
            "`{entry}` is not an address or a range: write it as `10.1.2.3`, `10.0.0.0/8` or `fd00::/8`"
        );
        assert_eq!(error(entry), message);
    }
}

#[test]
fn empty_list_is_refused() {
    let none: [&str; 0] = [];
    let error = Proxies::trusted(none, ProxyHeader::Forwarded).unwrap_err();
    assert_eq!(error, ProxiesError::Empty);
    assert_eq!(
        error.to_string(),
        "the list of trusted proxies is empty: add your proxies, or use `ClientIp::peer()`"
    );
}

#[test]
fn lists_may_be_owned_and_hold_single_addresses() {
    let list = vec![String::from("10.0.0.1"), String::from("fd00::1/128")];
    let proxies = Proxies::trusted(list, ProxyHeader::XForwardedFor).unwrap();
    let via = |peer| client(&proxies, &lines(peer, XFF, &["203.0.113.7"]));
    assert_eq!(via("10.0.0.1").as_deref(), Ok("203.0.113.7"));
    assert_eq!(via("fd00::1").as_deref(), Ok("203.0.113.7"));
    assert_eq!(via("10.0.0.2").as_deref(), Ok("10.0.0.2"));
    assert_eq!(via("fd00::2").as_deref(), Ok("fd00::2"));
}

#[test]
fn addresses_are_masked_once_they_are_found() {
    let proxies = trusted(ProxyHeader::XForwardedFor);
    let by_64 = ClientIp::behind(proxies.clone());
    let range = Ipv6Range::behind(proxies).prefix(56);
    let ipv6 = lines("10.0.0.1", XFF, &["[2001:db8:1:2ff:3::7%eth0]:80"]);
    assert_eq!(by_64.extract(&ipv6), "2001:db8:1:2ff::".into());
    assert_eq!(range.extract(&ipv6), "2001:db8:1:200::/56".into());
    let mapped = lines("10.0.0.1", XFF, &["::ffff:203.0.113.7"]);
    assert_eq!(by_64.extract(&mapped), "203.0.113.7".into());
    assert_eq!(range.extract(&mapped), Extracted::Skip);
    let none = from("10.0.0.1", &[]);
    assert!(matches!(range.extract(&none), Extracted::Missing(_)));
}
