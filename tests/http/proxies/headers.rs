//! The `Forwarded` header.

use tollgate::key::ProxyHeader;

use super::{FORWARDED, assert_clients, trusted};

const INVALID: Result<&str, &str> = Err("`forwarded` has no valid IP address where the client's");

#[test]
fn forwarded_is_read_to_the_letter() {
    let cases: [(&[&str], _); 5] = [
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
    ];
    assert_clients(&trusted(ProxyHeader::Forwarded), FORWARDED, &cases);
}

#[test]
fn element_that_names_nobody_is_never_walked_over() {
    let cases: [(&[&str], _); 3] = [
        (&["for=203.0.113.7, for=unknown"], INVALID),
        (&["for=203.0.113.7,"], INVALID),
        (&["203.0.113.7"], INVALID),
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
