//! Addresses of peers, at a position in a list, and alone in a header.

use allocation_counter::measure;
use http::request::Parts;

use super::{
    from, id, id_as,
    proxies::{Case, FORWARDED, INVALID, XFF, assert_clients, client, trusted},
    request,
};
use crate::{
    id::IdFormat::{self, IpAddress},
    key::{ClientIp, Ipv6Range, KeyExtractor, Proxies, ProxiesError, ProxyHeader},
};

#[test]
fn clients_count_by_ipv4_address_or_64() {
    for (ip, subscriber, exact) in [
        ("203.0.113.7", "203.0.113.7", "203.0.113.7"),
        (
            "2001:db8:1:2:3:4:5:6",
            "2001:db8:1:2::",
            "2001:db8:1:2:3:4:5:6",
        ),
        (
            "2001:db8:1:2:ffff::",
            "2001:db8:1:2::",
            "2001:db8:1:2:ffff::",
        ),
        ("::ffff:203.0.113.7", "203.0.113.7", "203.0.113.7"),
        ("::ffff:cb00:7107", "203.0.113.7", "203.0.113.7"),
        ("64:ff9b::203.0.113.7", "203.0.113.7", "203.0.113.7"),
        // These addresses embed no IPv4 address.
        ("::203.0.113.7", "::", "::cb00:7107"),
        ("2001:db8::1.2.3.4", "2001:db8::", "2001:db8::102:304"),
        ("64:ff9b::1:0:0", "64:ff9b::", "64:ff9b::1:0:0"),
        ("::1", "::", "::1"),
    ] {
        let parts = from(ip, &[]);
        for (extractor, found) in [
            (ClientIp::peer(), subscriber),
            (ClientIp::peer().exact(), exact),
        ] {
            assert_eq!(id(&extractor, &parts).unwrap(), found, "{ip}");
            // The id is canonical already.
            assert_eq!(id_as(&extractor, &parts, IpAddress).unwrap(), found, "{ip}");
            assert_eq!(IpAddress.fold(found), Ok(found.into()), "{ip}");
        }
    }
}

#[test]
fn ranges_are_of_ipv6_alone() {
    let parts = from("2001:db8:abcd:ef12:3456::1", &[]);
    for (bits, range) in [
        (32, "2001:db8::/32"),
        (48, "2001:db8:abcd::/48"),
        (56, "2001:db8:abcd:ef00::/56"),
        (64, "2001:db8:abcd:ef12::/64"),
    ] {
        assert_eq!(id(&Ipv6Range::peer().bits(bits), &parts).unwrap(), range);
    }
    let by_48 = Ipv6Range::peer();
    let range = id_as(&by_48, &parts, IdFormat::Ipv6Range);
    assert_eq!(range.unwrap(), "2001:db8:abcd::/48");
    for ip in ["203.0.113.7", "::ffff:203.0.113.7", "64:ff9b::203.0.113.7"] {
        assert_eq!(id(&by_48, &from(ip, &[])).unwrap_err(), "skipped", "{ip}");
    }
}

#[test]
#[should_panic(expected = "an IPv6 prefix of /65: use one from /32 to /64")]
fn ranges_are_bounded() {
    let _ = Ipv6Range::peer().bits(65);
}

#[test]
fn unspecified_or_unknown_peer_is_no_client() {
    for ip in ["0.0.0.0", "::", "::ffff:0.0.0.0"] {
        let function = ClientIp::from_fn(move |_| ip.parse().ok());
        for extractor in [ClientIp::peer(), function] {
            let missing = id(&extractor, &from(ip, &[])).unwrap_err();
            assert!(
                missing.starts_with("500 the peer's address is"),
                "{missing}"
            );
        }
        assert!(id(&Ipv6Range::peer(), &from(ip, &[])).is_err());
    }
    let missing = id(&ClientIp::peer(), &request(&[])).unwrap_err();
    assert!(missing.starts_with("500 the server does not pass on the peer's address"));
    let missing = id(&ClientIp::from_fn(|_| None), &request(&[])).unwrap_err();
    assert!(missing.starts_with("500 the function given"), "{missing}");
    let mapped = |_: &Parts| "::ffff:203.0.113.7".parse().ok();
    let found = id(&ClientIp::from_fn(mapped), &request(&[]));
    assert_eq!(found.unwrap(), "203.0.113.7");
}

#[test]
fn condition_holds_for_addresses_in_its_ranges() {
    let entries = vec![String::from("192.0.2.0/24"), String::from("2001:db8::1")];
    let within = ClientIp::peer().within(&entries).unwrap();
    drop(entries);
    for (ip, holds) in [
        ("192.0.2.255", true),
        ("::ffff:192.0.2.1", true),
        ("64:ff9b::192.0.2.1", true),
        ("192.0.3.0", false),
        ("2001:db8::1", true),
        ("2001:db8::2", false),
    ] {
        assert_eq!(within.clone()(&from(ip, &[])), holds, "{ip}");
    }
    assert!(!within(&request(&[])));
    let error = ClientIp::peer().within(["192.0.2.1/24"]).err().unwrap();
    assert!(
        error.to_string().contains("write `192.0.2.0/24`"),
        "{error}"
    );
}

#[test]
fn addresses_are_extracted_without_an_allocation() {
    let proxies = Proxies::trusted(["10.0.0.0/8"], ProxyHeader::XForwardedFor).unwrap();
    let forwarded: [(&str, &[u8]); 1] = [("x-forwarded-for", b"2001:db8:ffff:ffff::7, 10.0.0.2")];
    let parts = [
        from("203.0.113.7", &[]),
        from("2001:db8:ffff:ffff:ffff:ffff:ffff:ffff", &[]),
        from("10.0.0.1", &forwarded),
    ];
    let address = ClientIp::behind(proxies.clone());
    let range = Ipv6Range::behind(proxies);
    // The first id of a process creates the keys of the hash, which allocates.
    assert!(address.extract(&parts[0]).is_ok());
    for parts in &parts {
        let count = measure(|| {
            assert!(address.extract_as(parts, IpAddress).is_ok());
            assert!(range.extract_as(parts, IdFormat::Ipv6Range).is_ok());
        });
        assert_eq!(count.count_total, 0, "{parts:?}");
    }
}

#[test]
fn client_is_at_its_place_from_the_right() {
    const TOO_FEW: Result<&str, &str> = Err("is missing or has fewer items than hops");
    assert_clients(
        &Proxies::hops(2, ProxyHeader::XForwardedFor),
        XFF,
        &[
            (&["203.0.113.7, 192.0.2.1"], Ok("203.0.113.7")),
            (&["6.6.6.6, 203.0.113.7, 192.0.2.1"], Ok("203.0.113.7")),
            (&["6.6.6.6", "203.0.113.7", "192.0.2.1"], Ok("203.0.113.7")),
            // An item that is not an address keeps its position.
            (&["a, 203.0.113.7, unknown"], Ok("203.0.113.7")),
            (&["a, ,1.1.1.1"], INVALID),
            (&["203.0.113.7, unknown, 192.0.2.1"], INVALID),
            (&["203.0.113.7"], TOO_FEW),
            (&[""], TOO_FEW),
            (&[], TOO_FEW),
        ],
    );
    assert_clients(
        &Proxies::hops(2, ProxyHeader::Forwarded),
        FORWARDED,
        &[
            (&["for=203.0.113.7, for=192.0.2.1"], Ok("203.0.113.7")),
            (
                &[r#"for="6.6.6.6, for=203.0.113.7, for=192.0.2.1"#],
                Ok("203.0.113.7"),
            ),
            (
                &["for=6.6.6.6, for=203.0.113.7", "proto=https"],
                Ok("203.0.113.7"),
            ),
            (&["for=6.6.6.6, proto=https, for=192.0.2.1"], INVALID),
            (&["for=6.6.6.6, , for=192.0.2.1"], INVALID),
            (&["for=6.6.6.6;for=6.6.6.7, for=192.0.2.1"], INVALID),
            (&["for=203.0.113.7"], TOO_FEW),
        ],
    );
    let one = Proxies::hops(1, ProxyHeader::XForwardedFor);
    let unknown = request(&[(XFF, b"203.0.113.7")]);
    assert_eq!(client(&one, &unknown).unwrap(), "203.0.113.7");
}

#[test]
fn single_address_is_there_once() {
    let repeated = Err("appears more than once");
    let cases: [Case<'_>; 11] = [
        (&["203.0.113.7"], Ok("203.0.113.7")),
        (&["2001:db8::7"], Ok("2001:db8::7")),
        (&["[2001:db8::7%eth0]:80"], Ok("2001:db8::7")),
        // The header is no list, so even a trusted address is the client.
        (&["10.1.1.1"], Ok("10.1.1.1")),
        (&["203.0.113.7", "203.0.113.7"], repeated),
        (&["6.6.6.6", "203.0.113.7"], repeated),
        (&["6.6.6.6, 203.0.113.7"], INVALID),
        (&["203.0.113.7,"], INVALID),
        (&["for=203.0.113.7"], INVALID),
        (&[""], INVALID),
        (
            &[],
            Err("`cf-connecting-ip` is missing in a request from a trusted proxy"),
        ),
    ];
    let header = ProxyHeader::single("CF-Connecting-IP");
    let cloudfront: [Case<'_>; 8] = [
        (&["198.51.100.10:46532"], Ok("198.51.100.10")),
        (&["2001:db8::1:443"], Ok("2001:db8::1")),
        (&["2001:db8::1:444"], Ok("2001:db8::1")),
        (&["2001:db8::1:443", "2001:db8::1:443"], repeated),
        (&["2001:db8:1:2:3:4:5:6"], INVALID),
        (&["198.51.100.10"], INVALID),
        (&["6.6.6.6:1, 198.51.100.10:1"], INVALID),
        (
            &[],
            Err("`cloudfront-viewer-address` is missing in a request from a trusted proxy"),
        ),
    ];
    let viewer = ProxyHeader::CloudFrontViewerAddress;
    for (header, name, cases) in [
        (header, "cf-connecting-ip", &cases[..]),
        (viewer, "cloudfront-viewer-address", &cloudfront),
    ] {
        assert_clients(&trusted(header.clone()), name, cases);
        // Hops are not counted in this header.
        assert_clients(&Proxies::hops(1, header.clone()), name, cases);
        assert_clients(&Proxies::hops(3, header), name, cases);
    }
}

#[test]
fn registry_takes_the_second_entry_then_real_ip_then_the_peer() {
    let peer = "192.0.2.1";
    let real = "198.51.100.1";
    let cases: [(&[&str], &[&str], &str); 15] = [
        // This is the registry's own example.
        (&["192.168.1.1,142.250.70.174"], &[real], "142.250.70.174"),
        (
            &["192.168.1.1", "142.250.70.174"],
            &[real],
            "142.250.70.174",
        ),
        (
            &["unknown, 142.250.70.174, 10.0.0.1"],
            &[],
            "142.250.70.174",
        ),
        (&["192.168.1.1, [2001:db8::7]:80"], &[], "2001:db8::7"),
        (&["192.168.1.1"], &[real], real),
        (&["192.168.1.1, unknown"], &[real], real),
        (&["192.168.1.1, , 142.250.70.174"], &[real], real),
        (&[""], &[real], real),
        (&[], &[real], real),
        (&["192.168.1.1"], &[], peer),
        (&["192.168.1.1, unknown"], &["unknown"], peer),
        (&[], &["198.51.100.1, 198.51.100.2"], peer),
        (&[], &[real, real], peer),
        (&[], &[], peer),
        // As its docs say, clients can choose their address.
        (&["1.1.1.1, 6.6.6.6"], &[], "6.6.6.6"),
    ];
    for (forwarded_for, real_ip, expected) in cases {
        let forwarded_for = forwarded_for.iter().map(|line| (XFF, line.as_bytes()));
        let real_ip = real_ip.iter().map(|line| ("x-real-ip", line.as_bytes()));
        let headers: Vec<_> = forwarded_for.chain(real_ip).collect();
        let found = client(&Proxies::registry(), &from(peer, &headers));
        assert_eq!(found.unwrap(), expected, "{headers:?}");
    }
    assert!(client(&Proxies::registry(), &request(&[])).is_err());
}

#[test]
#[should_panic(expected = "0 hops: use `ClientIp::peer()` where there is no proxy")]
fn no_hops_are_no_proxies() {
    let _ = Proxies::hops(0, ProxyHeader::XForwardedFor);
}

#[test]
#[should_panic(expected = "65 hops: use at most 64")]
fn hops_are_bounded() {
    let _ = Proxies::hops(65, ProxyHeader::XForwardedFor);
}

#[test]
#[should_panic(expected = "`x real ip` is not a header name: use ASCII letters, digits and `-`")]
fn header_names_are_checked() {
    let _ = ProxyHeader::single("x real ip");
}

#[test]
fn header_with_a_variant_of_its_own_is_no_single_one() {
    for (name, right) in [
        ("x-forwarded-for", "use `ProxyHeader::XForwardedFor`"),
        ("X-Forwarded-For", "use `ProxyHeader::XForwardedFor`"),
        ("forwarded", "use `ProxyHeader::Forwarded`"),
        (
            "CloudFront-Viewer-Address",
            "use `ProxyHeader::CloudFrontViewerAddress`",
        ),
    ] {
        let hops = || Proxies::hops(1, ProxyHeader::single(name));
        let panic = std::panic::catch_unwind(hops).unwrap_err();
        let message = panic.downcast_ref::<String>().unwrap();
        assert!(message.contains(right), "{message}");
        let single = ProxyHeader::single(name);
        let error: ProxiesError = Proxies::trusted(["10.0.0.0/8"], single).unwrap_err();
        assert!(error.to_string().contains(right), "{error}");
    }
}
