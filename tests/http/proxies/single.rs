//! A header that holds one address.

use tollgate::key::{Proxies, ProxyHeader};

use super::{assert_clients, client, from, from_nowhere, trusted};

#[test]
fn one_address_is_there_once() {
    let repeated = Err("is there more than once");
    let invalid = Err("has no valid IP address where the client's should be");
    let cases: [(&[&str], _); 11] = [
        (&["203.0.113.7"], Ok("203.0.113.7")),
        (&["2001:db8::7"], Ok("2001:db8::7")),
        (&["[2001:db8::7%eth0]:80"], Ok("2001:db8::7")),
        // No list: even a trusted address is the client.
        (&["10.1.1.1"], Ok("10.1.1.1")),
        (&["203.0.113.7", "203.0.113.7"], repeated),
        (&["6.6.6.6", "203.0.113.7"], repeated),
        (&["6.6.6.6, 203.0.113.7"], invalid),
        (&["203.0.113.7,"], invalid),
        (&["for=203.0.113.7"], invalid),
        (&[""], invalid),
        (
            &[],
            Err("the header of `ProxyHeader::Single` is missing from what a trusted"),
        ),
    ];
    let name = "cf-connecting-ip";
    let header = ProxyHeader::single("CF-Connecting-IP");
    assert_clients(&trusted(header.clone()), name, &cases);
    // Hops are not counted in it.
    assert_clients(&Proxies::hops(1, header.clone()), name, &cases);
    assert_clients(&Proxies::hops(3, header), name, &cases);
}

#[test]
fn hops_believe_it_from_anyone() {
    let proxies = Proxies::hops(1, ProxyHeader::single("x-real-ip"));
    let header: (&str, &[u8]) = ("x-real-ip", b"203.0.113.7");
    assert_eq!(
        client(&proxies, &from("192.0.2.1", &[header])).as_deref(),
        Ok("203.0.113.7")
    );
    assert_eq!(
        client(&proxies, &from_nowhere(&[header])).as_deref(),
        Ok("203.0.113.7")
    );
}

#[test]
#[should_panic(expected = "`x real ip` is not a header name: use ASCII letters, digits and `-`")]
fn bad_name_is_refused() {
    let _ = ProxyHeader::single("x real ip");
}
