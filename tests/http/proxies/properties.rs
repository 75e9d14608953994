//! What holds whatever a client sends.

use std::net::IpAddr;

use http::{HeaderValue, request::Parts};
use proptest::{
    collection::vec,
    prelude::{ProptestConfig, Strategy, any, prop, prop_assert_eq, prop_oneof, proptest},
};
use tollgate::key::{Proxies, ProxyHeader};

use super::{FORWARDED, XFF, client, from, trusted};
use crate::support::scale::scaled;

/// The bytes that a header's value may hold, those that mean something far more often.
fn value() -> impl Strategy<Value = Vec<u8>> {
    let telling = prop::sample::select(&br#",,;=""\\ []:%.0127afx_for"#[..]);
    let any = any::<u8>().prop_filter("no control characters", |byte| {
        HeaderValue::from_bytes(&[*byte]).is_ok()
    });
    let pieces = prop::sample::select(vec![
        "for=6.6.6.6",
        "6.6.6.6",
        "10.0.0.1",
        "for=10.0.0.1",
        "for=\"[fd00::1]:80\"",
        ", ",
        "\"",
        "\\\"",
        ";",
        "unknown",
        "fd00::1",
    ]);
    let byte = prop_oneof![4 => telling, 1 => any].prop_map(|byte| vec![byte]);
    let piece = pieces.prop_map(|piece| piece.as_bytes().to_vec());
    vec(prop_oneof![byte, piece], 0..40).prop_map(|parts| parts.concat())
}

/// An address that is none of the proxies'.
fn address() -> impl Strategy<Value = IpAddr> {
    let any = prop_oneof![
        any::<[u8; 4]>().prop_map(IpAddr::from),
        any::<[u8; 16]>().prop_map(IpAddr::from),
        any::<u32>()
            .prop_map(|low| IpAddr::from((0x2001_0db8_u128 << 96 | u128::from(low)).to_be_bytes())),
    ];
    any.prop_map(|ip| ip.to_canonical())
        .prop_filter("not a proxy's, and somebody's", |ip| match ip {
            IpAddr::V4(ip) => ip.octets()[0] != 10 && !ip.is_unspecified(),
            IpAddr::V6(ip) => ip.octets()[0] != 0xfd && !ip.is_unspecified(),
        })
}

/// How a proxy writes the address of its peer.
fn written(kind: &ProxyHeader, ip: IpAddr, style: u8) -> String {
    match (kind, ip) {
        (ProxyHeader::Forwarded, IpAddr::V4(ip)) => match style % 3 {
            0 => format!("for={ip}"),
            1 => format!(r#"host="a,\"b\\";for="{ip}:80""#),
            _ => format!(r#"For="{ip}:_p";proto=https;by="[fd00::9]""#),
        },
        (ProxyHeader::Forwarded, IpAddr::V6(ip)) => match style % 2 {
            0 => format!(r#"for="[{ip}]""#),
            _ => format!(r#"by=_x;for="[{ip}%25eth0]:80";host="x\",""#),
        },
        (_, IpAddr::V4(ip)) => match style % 3 {
            0 => ip.to_string(),
            1 => format!("{ip}:80"),
            _ => format!("::ffff:{ip}"),
        },
        (_, IpAddr::V6(ip)) => match style % 3 {
            0 => ip.to_string(),
            1 => format!("[{ip}]:80"),
            _ => format!("{ip}%eth0"),
        },
    }
}

/// Lines of a header after a proxy has appended to them, on the last one or on a new one.
fn append(lines: &mut Vec<Vec<u8>>, item: &str, new_line: bool) {
    match lines.last_mut() {
        Some(line) if !new_line => {
            line.extend_from_slice(b", ");
            line.extend_from_slice(item.as_bytes());
        }
        _ => lines.push(item.into()),
    }
}

fn request(name: &str, lines: &[Vec<u8>]) -> Parts {
    let headers: Vec<_> = lines.iter().map(|line| (name, &line[..])).collect();
    from("10.0.0.1", &headers)
}

fn list() -> impl Strategy<Value = (ProxyHeader, &'static str)> {
    prop::sample::select(vec![
        (ProxyHeader::XForwardedFor, XFF),
        (ProxyHeader::Forwarded, FORWARDED),
    ])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(scaled(400)))]

    #[test]
    fn nothing_that_is_sent_panics(lines in vec(value(), 0..4), peer in address(), hops in 1..5_usize) {
        for (kind, name) in [
            (ProxyHeader::XForwardedFor, XFF),
            (ProxyHeader::Forwarded, FORWARDED),
            (ProxyHeader::single("x-real-ip"), "x-real-ip"),
        ] {
            let headers: Vec<_> = lines.iter().map(|line| (name, &line[..])).collect();
            let trusted = trusted(kind.clone());
            let _ = client(&trusted, &from("10.0.0.1", &headers));
            let _ = client(&Proxies::hops(hops, kind), &from("10.0.0.1", &headers));
            let _ = client(&Proxies::registry(), &from("10.0.0.1", &headers));
            let found = client(&trusted, &from(&peer.to_string(), &headers));
            prop_assert_eq!(found, Ok(peer.to_string()));
        }
    }

    #[test]
    fn client_is_who_it_is_behind_one_proxy(
        (kind, name) in list(),
        mut lines in vec(value(), 0..3),
        ip in address(),
        style: u8,
        new_line: bool,
    ) {
        append(&mut lines, &written(&kind, ip, style), new_line);
        let request = request(name, &lines);
        prop_assert_eq!(client(&trusted(kind.clone()), &request), Ok(ip.to_string()));
        prop_assert_eq!(client(&Proxies::hops(1, kind), &request), Ok(ip.to_string()));
    }

    #[test]
    fn client_is_who_it_is_behind_two_proxies(
        (kind, name) in list(),
        mut lines in vec(value(), 0..3),
        ip in address(),
        styles: [u8; 2],
        new_lines: [bool; 2],
        outer in prop::sample::select(vec!["10.9.9.9", "fd00::9"]),
    ) {
        append(&mut lines, &written(&kind, ip, styles[0]), new_lines[0]);
        let outer = outer.parse().unwrap();
        append(&mut lines, &written(&kind, outer, styles[1]), new_lines[1]);
        let request = request(name, &lines);
        prop_assert_eq!(client(&trusted(kind.clone()), &request), Ok(ip.to_string()));
        prop_assert_eq!(client(&Proxies::hops(2, kind), &request), Ok(ip.to_string()));
    }

    #[test]
    fn addresses_and_ids_are_one_to_one(
        (kind, name) in list(),
        one in address(),
        other in address(),
        styles: [u8; 2],
    ) {
        let found = |ip, style| {
            let line = written(&kind, ip, style).into_bytes();
            client(&trusted(kind.clone()), &request(name, &[line]))
        };
        prop_assert_eq!(found(one, styles[0]), found(one, styles[1]));
        prop_assert_eq!(found(one, styles[0]) == found(other, styles[1]), one == other);
    }
}
