//! The container registry's rule.

use tollgate::key::{Proxies, ProxyHeader};

use super::{XFF, client, from, from_nowhere, lines, trusted};

const REAL_IP: &str = "x-real-ip";

fn found(peer: &str, forwarded_for: &[&str], real_ip: &[&str]) -> Result<String, String> {
    let forwarded_for = forwarded_for.iter().map(|line| (XFF, line.as_bytes()));
    let real_ip = real_ip.iter().map(|line| (REAL_IP, line.as_bytes()));
    let headers: Vec<_> = forwarded_for.chain(real_ip).collect();
    client(&Proxies::registry(), &from(peer, &headers))
}

#[test]
fn second_entry_then_real_ip_then_peer() {
    let (peer, real) = ("192.0.2.1", "198.51.100.1");
    let cases: [(&[&str], &[&str], &str); 14] = [
        // The registry's own example.
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
    ];
    for (forwarded_for, real_ip, expected) in cases {
        let found = found(peer, forwarded_for, real_ip);
        assert_eq!(
            found.as_deref(),
            Ok(expected),
            "{forwarded_for:?}, {real_ip:?}"
        );
    }
    assert!(client(&Proxies::registry(), &from_nowhere(&[])).is_err());
}

/// As its docs say. Counting from the right is not fooled by the same request.
#[test]
fn client_chooses_its_address_where_a_proxy_appends() {
    let sent = "1.1.1.1, 6.6.6.6";
    let appended = format!("{sent}, 203.0.113.7");
    assert_eq!(found("203.0.113.7", &[sent], &[]).as_deref(), Ok("6.6.6.6"));
    assert_eq!(
        found("10.0.0.1", &[&appended], &[]).as_deref(),
        Ok("6.6.6.6")
    );
    assert_eq!(
        found("10.0.0.1", &[], &["6.6.6.6"]).as_deref(),
        Ok("6.6.6.6")
    );

    let request = lines("10.0.0.1", XFF, &[&appended]);
    for proxies in [
        Proxies::hops(1, ProxyHeader::XForwardedFor),
        trusted(ProxyHeader::XForwardedFor),
    ] {
        assert_eq!(client(&proxies, &request).as_deref(), Ok("203.0.113.7"));
    }
}
