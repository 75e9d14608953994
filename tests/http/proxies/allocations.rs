//! No header makes extraction allocate.

use std::hint::black_box;

use allocation_counter::measure;
use tollgate::{
    ClientIp,
    key::{Ipv6Range, KeyExtractor, Proxies, ProxyHeader},
};

use super::{FORWARDED, XFF, from, trusted};

fn values() -> [String; 13] {
    [
        String::new(),
        "unknown".into(),
        "203.0.113.7".into(),
        "203.0.113.7, 10.1.1.1".into(),
        "[2001:db8:ffff:ffff:ffff:ffff:ffff:ffff%25eth0]:65535".into(),
        r#"for="\[2001\:db8::7%25eth0]:80";proto=https;host="a\"b", for=10.1.1.1"#.into(),
        r#"for="unterminated"#.into(),
        "10.1.1.1, ".repeat(5000),
        ";".repeat(60_000),
        "\"".repeat(60_000),
        "\\".repeat(60_000),
        "for=10.1.1.1, ".repeat(5000) + "for=10.1.1.1",
        (0..5000).map(|i| format!("x{i}=1;")).collect(),
    ]
}

#[test]
fn extraction_allocates_nothing() {
    let mut all = vec![Proxies::registry()];
    for kind in [
        ProxyHeader::XForwardedFor,
        ProxyHeader::Forwarded,
        ProxyHeader::single("x-real-ip"),
    ] {
        all.extend([trusted(kind.clone()), Proxies::hops(2, kind)]);
    }
    for value in values() {
        let request = from(
            "10.0.0.1",
            &[XFF, FORWARDED, "x-real-ip"].map(|name| (name, value.as_bytes())),
        );
        for proxies in &all {
            let ip = ClientIp::behind(proxies.clone());
            let range = Ipv6Range::behind(proxies.clone());
            let count = measure(|| {
                black_box((ip.extract(&request), range.extract(&request)));
            });
            assert_eq!(count.count_total, 0, "{proxies:?}");
        }
    }
}
