//! Ids: one client has one, however it is written, and two clients never share one.

#![allow(clippy::unwrap_used, reason = "a test panics to fail")]

use std::{
    collections::BTreeSet,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

use proptest::{collection::vec, prelude::*, sample::select};
use sha2::{Digest, Sha256};
use tollgate::id::{
    Id,
    IdFormat::{self, Domain, FqdnSet, IpAddress, Ipv6Range, RegIdDomain, RegIdFqdnSet},
};

fn fold(format: IdFormat, text: &str) -> String {
    let folded = format.fold(text);
    folded.unwrap_or_else(|error| panic!("{error}")).to_string()
}

/// A text in small and capital letters.
fn any_case(text: &str, capitals: u64) -> String {
    let flip = |(i, c): (usize, char)| match capitals >> (i % 64) & 1 {
        0 => c,
        _ => c.to_ascii_uppercase(),
    };
    text.chars().enumerate().map(flip).collect()
}

/// Spellings of an IPv6 address.
fn spellings(ip: Ipv6Addr, capitals: u64) -> Vec<String> {
    let hextets = ip.segments();
    let joined = |hextets: &[u16], wide: bool| {
        let hextet = |h: &u16| {
            if wide {
                format!("{h:04x}")
            } else {
                format!("{h:x}")
            }
        };
        hextets.iter().map(hextet).collect::<Vec<_>>().join(":")
    };
    let low = Ipv4Addr::from_bits((u32::from(hextets[6]) << 16) | u32::from(hextets[7]));
    let mut all = vec![
        ip.to_string(),
        joined(&hextets, false),
        joined(&hextets, true),
        format!("{}:{low}", joined(&hextets[..6], false)),
        format!("{ip}%eth0"),
    ];
    // `::` for each run of zeros, of one hextet too.
    for start in 0..8 {
        for end in start + 1..=8 {
            if hextets[start..end].iter().all(|h| *h == 0) {
                let (before, after) = (&hextets[..start], &hextets[end..]);
                all.push(format!(
                    "{}::{}",
                    joined(before, true),
                    joined(after, false)
                ));
            }
        }
    }
    all.iter().map(|text| any_case(text, capitals)).collect()
}

/// Addresses with many zeros, near to each other, mapped IPv4 ones among them.
fn ipv6() -> impl Strategy<Value = Ipv6Addr> {
    let hextet =
        prop_oneof![3 => Just(0), 2 => select(&[1, 0xa, 0xffff, 0x2001][..]), 1 => any::<u16>()];
    let various = proptest::array::uniform8(hextet).prop_map(Ipv6Addr::from);
    let mapped = any::<u32>().prop_map(|bits| Ipv4Addr::from_bits(bits).to_ipv6_mapped());
    prop_oneof![4 => various, 1 => mapped]
}

/// Addresses that stand for no IPv4 one.
fn unmapped() -> impl Strategy<Value = Ipv6Addr> {
    let unmap = |ip: Ipv6Addr| match ip.to_ipv4_mapped() {
        Some(_) => Ipv6Addr::from_bits(ip.to_bits() | 1 << 127),
        None => ip,
    };
    ipv6().prop_map(unmap)
}

/// What an address is to its neighbours: the bits, and IPv4 apart from IPv6.
fn model(ip: Ipv6Addr) -> (bool, u128) {
    let bits = ip.to_bits();
    match bits >> 32 {
        0xffff => (true, bits & 0xffff_ffff),
        _ => (false, bits),
    }
}

/// A label that is no public suffix.
fn label() -> impl Strategy<Value = String> {
    "[a-c][a-c0-9-]{0,3}[0-9]q"
}

/// Suffixes by themselves: listed, with two labels, private, by a wildcard, and not on the list.
const SUFFIXES: &[&str] = &[
    "com",
    "org",
    "co.uk",
    "github.io",
    "example.ck",
    "internal",
    "xn--p1ai",
    "xn--55qx5d.cn",
];

/// A registered name.
fn registered() -> impl Strategy<Value = String> {
    (label(), select(SUFFIXES)).prop_map(|(label, suffix)| format!("{label}.{suffix}"))
}

/// Members of a set, as they are kept: names and addresses.
fn members() -> impl Strategy<Value = BTreeSet<String>> {
    let name = (select(&["", "www.", "*."][..]), registered())
        .prop_map(|(www, name)| format!("{www}{name}"));
    let address = (0..3u32).prop_map(|low| format!("10.0.0.{low}"));
    let ipv6 = (0..3u32).prop_map(|low| format!("2001:db8::{:x}", low + 0xa));
    let member = prop_oneof![6 => name, 1 => address, 1 => ipv6];
    proptest::collection::btree_set(member, 1..12)
}

/// Another way of writing a set: in any order and case, some of it twice, with dots at names' ends.
fn respelled(members: &BTreeSet<String>, seed: u64) -> String {
    let twice = members.iter().take(usize::try_from(seed % 3).unwrap());
    let mut all: Vec<_> = members.iter().chain(twice).enumerate().collect();
    all.sort_by_cached_key(|(i, member)| Sha256::digest(format!("{seed} {i} {member}")));
    let spelled = all.iter().map(|(i, member)| {
        let is_name = member.parse::<IpAddr>().is_err();
        let dot = if is_name && (seed >> i) & 1 == 1 {
            "."
        } else {
            ""
        };
        any_case(&format!("{member}{dot}"), seed.rotate_left(7))
    });
    spelled.collect::<Vec<_>>().join(",")
}

fn hash(members: &BTreeSet<String>) -> String {
    let joined = members
        .iter()
        .map(String::as_str)
        .collect::<Vec<_>>()
        .join(",");
    Sha256::digest(joined)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

fn config() -> ProptestConfig {
    ProptestConfig {
        cases: 256,
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn opaque_ids_are_what_they_are(text in any::<String>()) {
        match IdFormat::Opaque.fold(&text) {
            Ok(folded) => prop_assert_eq!(folded.as_str(), &*text),
            Err(_) => prop_assert!(text.is_empty()),
        }
    }

    #[test]
    fn addresses_have_one_id_each(a in ipv6(), b in ipv6(), capitals in any::<u64>()) {
        let id = fold(IpAddress, &a.to_string());
        for text in spellings(a, capitals) {
            prop_assert_eq!(fold(IpAddress, &text), id.as_str(), "{}", text);
        }
        if let Some(ip) = a.to_ipv4_mapped() {
            prop_assert_eq!(fold(IpAddress, &ip.to_string()), id.as_str());
        }
        prop_assert_eq!(fold(IpAddress, &b.to_string()) == id, model(a) == model(b));
        // The id is the address, by the standard library's parser.
        let parsed: IpAddr = id.parse().unwrap();
        prop_assert_eq!(parsed, a.to_canonical());
    }

    #[test]
    fn ipv4_addresses_have_one_id_each(a in any::<u32>(), b in any::<u32>(), flip in 0..32u32) {
        let id = |bits| fold(IpAddress, &Ipv4Addr::from_bits(bits).to_string());
        prop_assert_ne!(id(a), id(a ^ (1 << flip)));
        prop_assert_eq!(id(a) == id(b), a == b);
        prop_assert_eq!(id(a), Ipv4Addr::from_bits(a).to_string());
    }

    #[test]
    fn ranges_have_one_id_each(a in unmapped(), b in unmapped(), bit in 0..128u32, capitals in any::<u64>()) {
        let near = Ipv6Addr::from_bits(a.to_bits() ^ (1 << bit));
        prop_assume!(near.to_ipv4_mapped().is_none());
        let id = fold(Ipv6Range, &a.to_string());
        let first = Ipv6Addr::from_bits(a.to_bits() >> 80 << 80);
        prop_assert_eq!(&id, &format!("{first}/48"));
        for text in spellings(a, capitals) {
            prop_assert_eq!(fold(Ipv6Range, &text), id.as_str(), "{}", text);
            if !text.contains('%') {
                prop_assert_eq!(fold(Ipv6Range, &format!("{text}/48")), id.as_str(), "{}", text);
            }
        }
        prop_assert_eq!(fold(Ipv6Range, &near.to_string()) == id, bit < 80);
        prop_assert_eq!(fold(Ipv6Range, &b.to_string()) == id, a.to_bits() >> 80 == b.to_bits() >> 80);
    }

    #[test]
    fn registered_names_have_one_id_each(
        (a, b) in (registered(), registered()),
        below in vec(label(), 0..4),
        (capitals, dot, wildcard) in (any::<u64>(), any::<bool>(), any::<bool>()),
    ) {
        let mut text = if wildcard { String::from("*.") } else { String::new() };
        for label in &below {
            text += &format!("{label}.");
        }
        text += &any_case(&a, capitals);
        text += if dot { "." } else { "" };
        prop_assert_eq!(fold(Domain, &text), a.as_str(), "{}", text);
        prop_assert_eq!(fold(Domain, &b) == fold(Domain, &a), a == b);
    }

    #[test]
    fn sets_have_one_id_each(a in members(), b in members(),  capitals in any::<u64>()) {
        let id = fold(FqdnSet, &a.iter().map(String::as_str).collect::<Vec<_>>().join(","));
        prop_assert_eq!(&id, &hash(&a));
        prop_assert_eq!(fold(FqdnSet, &respelled(&a, capitals)), id.as_str());
        prop_assert_eq!(fold(FqdnSet, &respelled(&b, capitals)) == id, a == b);
        let mut fewer = a.clone();
        fewer.pop_first();
        if !fewer.is_empty() {
            prop_assert_ne!(fold(FqdnSet, &respelled(&fewer, capitals)), id);
        }
    }

    #[test]
    fn pairs_have_one_id_each(
        (m, n) in (0..3u64, 0..3u64),
        (a, b) in (registered(), registered()),
        set in members(),
        capitals in any::<u64>(),
    ) {
        let id = fold(RegIdDomain, &format!("{m}:{a}"));
        prop_assert_eq!(&id, &format!("{m}:{a}"));
        prop_assert_eq!(fold(RegIdDomain, &format!("{m}:www.{}", any_case(&a, capitals))), id.as_str());
        prop_assert_eq!(fold(RegIdDomain, &format!("{n}:{a}")) == id, m == n);
        prop_assert_eq!(fold(RegIdDomain, &format!("{m}:{b}")) == id, a == b);
        let spelled = format!("{m}:{}", respelled(&set, capitals));
        prop_assert_eq!(fold(RegIdFqdnSet, &spelled), format!("{m}:{}", hash(&set)));
    }
}

#[test]
fn id_of_those_who_have_none_is_nobody_elses() {
    for &format in IdFormat::ALL {
        let error = format.fold(Id::MISSING).unwrap_err().to_string();
        assert!(error.contains("use `Transaction::missing`"), "{error}");
    }
    assert!(RegIdDomain.fold(&format!("7:{}", Id::MISSING)).is_err());
    assert!(
        FqdnSet
            .fold(&format!("{},example.com", Id::MISSING))
            .is_err()
    );
}

#[test]
fn long_texts_are_folded_or_refused() {
    for piece in [
        "a",
        "a.",
        "a,",
        "1",
        "1:",
        "a.b,",
        "::",
        "/48",
        "ä",
        "*.",
        "10.0.0.1,",
    ] {
        let text = piece.repeat(100_000);
        for text in [
            &text,
            text.strip_suffix(char::is_alphanumeric).unwrap_or(&text),
            &format!("7:{text}com"),
            &format!("{text}a.com"),
        ] {
            for &format in IdFormat::ALL {
                let said = format
                    .fold(text)
                    .map_or_else(|error| error.to_string(), |id| id.to_string());
                assert!(
                    format == IdFormat::Opaque || said.len() < 500,
                    "{format} {}",
                    said.len()
                );
            }
        }
    }
}
