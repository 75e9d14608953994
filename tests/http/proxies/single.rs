//! A header that holds one address.

use tollgate::key::{Proxies, ProxyHeader};

use super::{assert_clients, trusted};

#[test]
fn one_address_is_there_once() {
    let repeated = Err("appears more than once");
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
            Err("the header of `ProxyHeader::Single` is missing in a request from a trusted proxy"),
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
#[should_panic(expected = "`x real ip` is not a header name: use ASCII letters, digits and `-`")]
fn bad_name_is_refused() {
    let _ = ProxyHeader::single("x real ip");
}

#[test]
fn header_with_a_form_of_its_own_is_no_single_one() {
    for (name, right) in [
        ("x-forwarded-for", "ProxyHeader::XForwardedFor"),
        ("X-Forwarded-For", "ProxyHeader::XForwardedFor"),
        ("forwarded", "ProxyHeader::Forwarded"),
        (
            "CloudFront-Viewer-Address",
            "ProxyHeader::CloudFrontViewerAddress",
        ),
    ] {
        let panics = |build: fn(&str)| {
            let panic = std::panic::catch_unwind(|| build(name)).unwrap_err();
            let message = panic.downcast_ref::<String>().unwrap();
            assert!(message.contains(right), "{message}");
        };
        panics(|name| drop(ProxyHeader::single(name)));
        // The variant can be had without the constructor.
        let variant = |name: &str| ProxyHeader::Single(name.parse().unwrap());
        panics(|name| {
            let _ = Proxies::hops(1, ProxyHeader::Single(name.parse().unwrap()));
        });
        let error = Proxies::trusted(["10.0.0.0/8"], variant(name)).unwrap_err();
        assert!(error.to_string().contains(right), "{error}");
    }
}

#[test]
fn cloudfronts_viewer_is_read_with_its_port_and_without_brackets() {
    let repeated = Err("`cloudfront-viewer-address` appears more than once");
    let invalid = Err("`cloudfront-viewer-address` has no valid IP address");
    let cases: [(&[&str], _); 8] = [
        (&["198.51.100.10:46532"], Ok("198.51.100.10")),
        (&["2001:db8::1:443"], Ok("2001:db8::1")),
        (&["2001:db8::1:444"], Ok("2001:db8::1")),
        (&["2001:db8::1:443", "2001:db8::1:443"], repeated),
        (&["2001:db8:1:2:3:4:5:6"], invalid),
        (&["198.51.100.10"], invalid),
        (&["6.6.6.6:1, 198.51.100.10:1"], invalid),
        (
            &[],
            Err("`cloudfront-viewer-address` is missing in a request from a trusted proxy"),
        ),
    ];
    let name = "cloudfront-viewer-address";
    let header = ProxyHeader::CloudFrontViewerAddress;
    assert_clients(&trusted(header.clone()), name, &cases);
    assert_clients(&Proxies::hops(1, header), name, &cases);
}
