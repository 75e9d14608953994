//! Proxies that are believed by their number.

use tollgate::key::{Proxies, ProxyHeader};

use super::{FORWARDED, XFF, assert_clients, client, from, from_nowhere};

const TOO_FEW: Result<&str, &str> = Err("is missing or has fewer items than hops");
const INVALID: Result<&str, &str> = Err("has no valid IP address where the client's should be");

#[test]
fn client_stands_at_its_place_from_the_right() {
    let cases: [(&[&str], _); 10] = [
        (&["203.0.113.7, 192.0.2.1"], Ok("203.0.113.7")),
        (&["6.6.6.6, 203.0.113.7, 192.0.2.1"], Ok("203.0.113.7")),
        (&["6.6.6.6", "203.0.113.7", "192.0.2.1"], Ok("203.0.113.7")),
        // No address is skipped for being trusted elsewhere.
        (&["203.0.113.7, 10.1.1.1, 10.1.1.2"], Ok("10.1.1.1")),
        // What stands elsewhere need not be an address, but keeps its place.
        (&["a, 203.0.113.7, unknown"], Ok("203.0.113.7")),
        (&["a, ,1.1.1.1"], INVALID),
        (&["203.0.113.7, unknown, 192.0.2.1"], INVALID),
        (&["203.0.113.7"], TOO_FEW),
        (&[""], TOO_FEW),
        (&[], TOO_FEW),
    ];
    assert_clients(&Proxies::hops(2, ProxyHeader::XForwardedFor), XFF, &cases);
}

#[test]
fn elements_of_forwarded_are_counted_alike() {
    let cases: [(&[&str], _); 7] = [
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
    ];
    assert_clients(&Proxies::hops(2, ProxyHeader::Forwarded), FORWARDED, &cases);
}

#[test]
fn peer_does_not_matter_and_need_not_be_known() {
    let proxies = Proxies::hops(1, ProxyHeader::XForwardedFor);
    let header: (&str, &[u8]) = (XFF, b"203.0.113.7");
    for peer in ["10.0.0.1", "192.0.2.1", "2001:db8::1"] {
        assert_eq!(
            client(&proxies, &from(peer, &[header])).as_deref(),
            Ok("203.0.113.7")
        );
    }
    assert_eq!(
        client(&proxies, &from_nowhere(&[header])).as_deref(),
        Ok("203.0.113.7")
    );
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
