//! The `Forwarded` header, and how addresses are written.

use tollgate::key::ProxyHeader;

use super::{FORWARDED, XFF, assert_clients, client, lines, trusted};

const INVALID: Result<&str, &str> = Err("`forwarded` has no valid IP address where the client's");

#[test]
fn forwarded_is_read_to_the_letter() {
    let cases: [(&[&str], _); 12] = [
        (&["for=203.0.113.7"], Ok("203.0.113.7")),
        (
            &["For=203.0.113.7;Proto=https;By=10.0.0.1"],
            Ok("203.0.113.7"),
        ),
        (&[r#"for="203.0.113.7:4711""#], Ok("203.0.113.7")),
        (
            &[r#"for="203.0.113.7:_port";host="a,b;c""#],
            Ok("203.0.113.7"),
        ),
        (
            &[r#"for="[2001:db8:cafe::17]:4711""#],
            Ok("2001:db8:cafe::17"),
        ),
        (&[r#"for="[2001:db8:cafe::17]""#], Ok("2001:db8:cafe::17")),
        (&[r#"for="[::ffff:203.0.113.7]""#], Ok("203.0.113.7")),
        (&[r#"for="\2\0\3.0.113.7""#], Ok("203.0.113.7")),
        (&[";;for=203.0.113.7;"], Ok("203.0.113.7")),
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
    ];
    assert_clients(&trusted(ProxyHeader::Forwarded), FORWARDED, &cases);
}

#[test]
fn element_that_names_nobody_is_never_walked_over() {
    let cases: [(&[&str], _); 9] = [
        (&["for=203.0.113.7, for=unknown"], INVALID),
        (&["for=203.0.113.7, for=_hidden"], INVALID),
        (&["for=203.0.113.7, proto=https"], INVALID),
        (&["for=203.0.113.7,"], INVALID),
        (&["for=203.0.113.7, for=2001:db8::1"], INVALID),
        (&["for=203.0.113.7, for=[2001:db8::1]"], INVALID),
        (&[r#"for=203.0.113.7, for="2001:db8::1""#], INVALID),
        (&["for=203.0.113.7, for=192.0.2.1:80"], INVALID),
        (&["203.0.113.7"], INVALID),
    ];
    assert_clients(&trusted(ProxyHeader::Forwarded), FORWARDED, &cases);
}

#[test]
fn parameter_given_twice_makes_its_element_invalid() {
    let cases: [(&[&str], _); 5] = [
        (&["for=203.0.113.7;for=6.6.6.6"], INVALID),
        (&["for=203.0.113.7;FOR=203.0.113.7"], INVALID),
        (&["for=203.0.113.7;proto=http;proto=https"], INVALID),
        (
            &["for=6.6.6.6;for=6.6.6.6, for=203.0.113.7"],
            Ok("203.0.113.7"),
        ),
        (&["for=6.6.6.6;for=6.6.6.6, for=10.1.1.1"], INVALID),
    ];
    assert_clients(&trusted(ProxyHeader::Forwarded), FORWARDED, &cases);
}

#[test]
fn quote_left_open_by_a_client_hides_nothing_that_a_proxy_appends() {
    let cases: [(&[&str], _); 9] = [
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
    ];
    assert_clients(&trusted(ProxyHeader::Forwarded), FORWARDED, &cases);
}

#[test]
fn spellings_of_one_address_are_one_client() {
    let spellings = [
        "2001:db8::7",
        "2001:DB8:0:0:0:0:0:7",
        "2001:db8::0.0.0.7",
        "[2001:db8::7]",
        "[2001:0db8::0007]:80",
        "2001:db8::7%eth0",
        "[2001:db8::7%25eth0]:65535",
    ];
    let proxies = trusted(ProxyHeader::XForwardedFor);
    for spelling in spellings {
        let found = client(&proxies, &lines("10.0.0.1", XFF, &[spelling]));
        assert_eq!(found.as_deref(), Ok("2001:db8::7"), "{spelling}");
    }
    for spelling in [
        "203.0.113.7",
        "203.0.113.7:80",
        "::ffff:203.0.113.7",
        "[::ffff:cb00:7107]:1",
    ] {
        let found = client(&proxies, &lines("10.0.0.1", XFF, &[spelling]));
        assert_eq!(found.as_deref(), Ok("203.0.113.7"), "{spelling}");
    }
}
