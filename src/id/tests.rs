//! Tests of ids in all formats: one client has one id, however it is written.

use std::net::IpAddr;

use super::{
    Id,
    IdFormat::{self, FqdnSet, IpAddress, Ipv6Range, Opaque, RegId, RegIdFqdnSet, RegIdIdentValue},
    MISSING, canonical_ip,
};

/// The SHA-256 of `example.com`, and of that, a comma and `example.org`.
const COM: &str = "a379a6f6eeafb9a55e378c118034e2751e682fab9f2d30ab13d2125586ce1947";
const BOTH: &str = "36b9d2294255745d0f491b3f04f6490de45cc7241f650ba58c3e4e61a2344efc";

fn assert_folds(format: IdFormat, cases: &[(&str, &str)]) {
    for (text, id) in cases {
        assert_eq!(format.fold(text).unwrap(), Id::from(*id), "{text}");
        let mut room = None;
        assert_eq!(format.fold_into(text, &mut room), Ok(*id), "{text}");
        assert_eq!(format.fold_id(Id::from(*text)), Ok(Id::from(*id)), "{text}");
        // A folded id is an id in its own format, unless it is a hash.
        if !format.to_string().contains("Set") {
            assert_eq!(format.fold(id), Ok(Id::from(*id)), "{text}");
        }
    }
}

fn assert_refused(format: IdFormat, texts: &[&str]) {
    for text in texts {
        assert!(format.fold(text).is_err(), "{format} {text:?}");
        assert!(format.canonical(text).is_err(), "{format} {text:?}");
    }
}

#[test]
fn addresses_have_one_spelling() {
    assert_folds(
        IpAddress,
        &[
            ("203.0.113.7", "203.0.113.7"),
            ("2001:db8::1", "2001:db8::1"),
            ("2001:0DB8:0:0::0001", "2001:db8::1"),
            ("fe80::1%eth0", "fe80::1"),
            ("::ffff:203.0.113.7", "203.0.113.7"),
            ("::FFFF:cb00:7107", "203.0.113.7"),
            ("::ffff:0.0.0.0", "0.0.0.0"),
            ("64:ff9b::203.0.113.7", "203.0.113.7"),
            ("64:ff9b::cb00:7107", "203.0.113.7"),
            // The first address of a range, another prefix, and an address that only looks as if it embeds another.
            ("64:ff9b::", "64:ff9b::"),
            ("64:ff9b:1::203.0.113.7", "64:ff9b:1::cb00:7107"),
            ("64:ff9b::1:203.0.113.7", "64:ff9b::1:cb00:7107"),
            ("2001:db8::203.0.113.7", "2001:db8::cb00:7107"),
            ("::203.0.113.7", "::cb00:7107"),
        ],
    );
    assert_refused(
        IpAddress,
        &[
            "",
            " 10.0.0.1",
            "10.0.0.1 ",
            "10.0.0",
            "10.0.0.256",
            "010.0.0.1",
            "0x0a.0.0.1",
            "167772161",
            "10.0.0.1:80",
            "[::1]",
            "[::1]:80",
            "10.0.0.0/8",
            "10.0.0.1/32",
            "2001:db8::/48",
            "2001:db8::1/128",
            ":::",
            "1::2::3",
            "g::1",
            "fe80::1%",
            "10.0.0.1%eth0",
            "localhost",
            "2001:db8:85a3:0:0:8a2e:370:7334:9000",
            "１０.0.0.1",
        ],
    );
}

#[test]
fn ranges_are_48s_of_ipv6() {
    assert_folds(
        Ipv6Range,
        &[
            ("2001:db8::/48", "2001:db8::/48"),
            ("2001:0DB8:0::/48", "2001:db8::/48"),
            ("2001:db8::1", "2001:db8::/48"),
            ("2001:db8:0:1::/48", "2001:db8::/48"),
            ("2001:db8::1%eth0", "2001:db8::/48"),
            ("::/48", "::/48"),
            ("64:ff9b::/48", "64:ff9b::/48"),
            ("64:ff9b:0:1::", "64:ff9b::/48"),
        ],
    );
    assert_refused(
        Ipv6Range,
        &[
            "",
            "10.0.0.0",
            "10.0.0.0/8",
            "10.0.0.0/48",
            "::ffff:10.0.0.1",
            "::ffff:10.0.0.1/48",
            "64:ff9b::10.0.0.1",
            "64:ff9b::10.0.0.1/48",
            "2001:db8::/32",
            "2001:db8::/64",
            "2001:db8::/128",
            "2001:db8::/",
            "2001:db8::/048",
            "2001:db8::/+48",
            "2001:db8::/48/48",
            "2001:db8::%eth0/48",
            "/48",
            "example.com",
        ],
    );
}

#[test]
fn account_numbers_are_as_they_are_written() {
    let cases = ["0", "7", "12345678", "18446744073709551615"].map(|text| (text, text));
    assert_folds(RegId, &cases);
    assert_refused(
        RegId,
        &[
            "",
            "0012",
            "00",
            "+5",
            "-1",
            "1.0",
            "1e5",
            "12 ",
            "0x10",
            "18446744073709551616",
            "١٢",
            "12345678901234567890123",
            "abc",
            "1_000",
        ],
    );
}

#[cfg(feature = "domains")]
#[test]
fn names_fold_into_their_registered_domain() {
    let long = format!("{}.com", "a".repeat(64));
    assert_folds(
        IdFormat::Domain,
        &[
            ("example.com", "example.com"),
            ("a.b.c.example.com", "example.com"),
            ("WWW.Example.COM.", "example.com"),
            ("*.example.com", "example.com"),
            ("www.example.co.uk", "example.co.uk"),
            ("co.uk", "co.uk"),
            // Private suffixes count as suffixes.
            ("bar.foo.github.io", "foo.github.io"),
            ("github.io", "github.io"),
            // Wildcards and exceptions of the list.
            ("a.b.c.ck", "b.c.ck"),
            ("a.www.ck", "www.ck"),
            // A suffix that is not on the list is one label.
            ("db.corp.internal", "corp.internal"),
            ("xn--mller-kva.de", "xn--mller-kva.de"),
        ],
    );
    assert_refused(
        IdFormat::Domain,
        &[
            "",
            ".",
            "com",
            "localhost",
            "example..com",
            ".example.com",
            "example.com..",
            "-a.com",
            "a-.com",
            "exa mple.com",
            "example.com ",
            "example_a.com",
            "müller.de",
            "10.0.0.1",
            "example.123",
            "example.com:80",
            "http://example.com",
            "example.com/",
            "*.com",
            "*.*.example.com",
            "a.*.example.com",
            "example.com,example.org",
            "::1",
            &long,
            &format!("{}com", "a.".repeat(127)),
        ],
    );
}

#[test]
fn sets_of_names_are_their_hash() {
    let set = |text: &str| FqdnSet.fold(text).unwrap().to_string();
    assert_folds(
        FqdnSet,
        &[
            ("example.com", COM),
            ("Example.com.,example.com", COM),
            ("example.org,example.com", BOTH),
        ],
    );
    let other = set("*.b.com,a.com,10.0.0.1,2001:db8::1");
    assert_eq!(other, set("2001:DB8:0::1,10.0.0.1,A.COM,*.B.com."));
    assert_ne!(other, set("b.com,a.com,10.0.0.1,2001:db8::1"));
    assert_refused(
        FqdnSet,
        &[
            "",
            ",",
            "a.com,",
            ",a.com",
            "a.com,,b.com",
            "a.com, b.com",
            "a.com;b.com",
            "com",
            COM,
            "a.com,*.*.b.com",
            "a.com\n",
            "a.com..",
            "fe80::1%eth0",
            &format!("{MISSING},a.com"),
        ],
    );
}

#[test]
fn pairs_are_their_parts() {
    let folded = format!("7:{COM}");
    assert_folds(RegIdFqdnSet, &[("7:Example.com", &folded)]);
    let refused = [
        "",
        ":",
        "12345678",
        "12345678:",
        ":example.com",
        "07:example.com",
        "7:com",
        "7:8:a.com",
        "a:b.com",
    ];
    assert_refused(RegIdFqdnSet, &refused);
    #[cfg(feature = "domains")]
    {
        assert_folds(
            IdFormat::RegIdDomain,
            &[
                ("7:example.com", "7:example.com"),
                ("7:www.Example.com.", "7:example.com"),
            ],
        );
        assert_refused(IdFormat::RegIdDomain, &refused);
    }
}

#[cfg(feature = "domains")]
#[test]
fn addresses_that_take_the_place_of_domains_are_their_networks() {
    let cases = [
        ("www.Example.co.uk.", "example.co.uk"),
        ("203.0.113.7", "203.0.113.7/32"),
        ("203.0.113.7/32", "203.0.113.7/32"),
        ("::ffff:203.0.113.7", "203.0.113.7/32"),
        ("64:ff9b::203.0.113.7", "203.0.113.7/32"),
        ("2001:DB8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:DB8:1:2::/64", "2001:db8:1:2::/64"),
    ];
    let refused = [
        "",
        "com",
        "203.0.113.0/24",
        "203.0.113.7/",
        "203.0.113.7/32/32",
        "203.0.113.7:80",
        "2001:db8:1:2::1/64",
        "2001:db8:1::/48",
        "2001:db8:1:2::/128",
        "::ffff:203.0.113.7/128",
        "::/0",
        "[2001:db8::1]",
        "fe80::1%eth0",
        "a.com,203.0.113.7",
    ];
    assert_folds(IdFormat::DomainOrCidr, &cases);
    assert_refused(IdFormat::DomainOrCidr, &refused);
    let pairs = |texts: &[&str]| {
        texts
            .iter()
            .map(|text| format!("7:{text}"))
            .collect::<Vec<_>>()
    };
    let folded = pairs(&cases.map(|(_, folded)| folded));
    for (text, folded) in pairs(&cases.map(|(text, _)| text)).iter().zip(&folded) {
        assert_folds(IdFormat::RegIdDomainOrCidr, &[(text, folded)]);
    }
    for text in pairs(&refused) {
        assert_refused(IdFormat::RegIdDomainOrCidr, &[&text]);
    }
    assert_refused(
        IdFormat::RegIdDomainOrCidr,
        &["example.com", "07:example.com"],
    );
}

#[test]
fn identifiers_of_an_account_stay_whole() {
    assert_folds(
        RegIdIdentValue,
        &[
            ("7:WWW.Example.com.", "7:www.example.com"),
            ("7:*.example.com", "7:*.example.com"),
            ("7:203.0.113.7", "7:203.0.113.7"),
            ("7:2001:DB8:0::1", "7:2001:db8::1"),
            ("7:64:ff9b::203.0.113.7", "7:203.0.113.7"),
        ],
    );
    assert_refused(
        RegIdIdentValue,
        &[
            "7",
            "7:",
            "07:example.com",
            "7:com",
            "7:example.com,example.org",
            "7:203.0.113.7/32",
            "7:203.0.113.7:80",
            "7:fe80::1%eth0",
            "203.0.113.7",
            "::1",
        ],
    );
}

#[test]
fn opaque_ids_are_any_text() {
    let long = "x".repeat(2000);
    for text in ["a", "a:b", " ", "ä€😀", "\u{ab}", &long] {
        assert_folds(Opaque, &[(text, text)]);
    }
    assert_refused(Opaque, &[""]);
}

#[test]
fn missing_id_marker_is_rejected_as_an_id() {
    for (format, _) in IdFormat::ALL {
        let error = format.fold(MISSING).unwrap_err().to_string();
        assert!(error.contains("use `Transaction::missing`"), "{error}");
        assert!(format.fold_id(MISSING.into()).is_err());
        assert_eq!(format.canonical(MISSING), Ok(MISSING.into()), "{format}");
    }
}

#[test]
fn ambiguous_id_in_a_file_is_rejected_with_a_suggestion() {
    let cases = [
        (IpAddress, "fe80::1%eth0", "fe80::1"),
        (Ipv6Range, "2001:db8::1", "2001:db8::/48"),
        (Ipv6Range, "2001:db8::", "2001:db8::/48"),
        (Ipv6Range, "2001:db8:0:1::/48", "2001:db8::/48"),
    ];
    #[cfg(feature = "domains")]
    let cases = cases.into_iter().chain([
        (IdFormat::Domain, "www.example.com", "example.com"),
        (IdFormat::Domain, "*.example.com.", "example.com"),
        (IdFormat::RegIdDomain, "7:www.Example.com", "7:example.com"),
    ]);
    for (format, text, right) in cases {
        let message = format!(
            "`{text}` is not an id in the format {format}: it belongs to `{right}`, which shares one bucket: write \
             that if you mean all of it"
        );
        assert_eq!(format.canonical(text).unwrap_err().to_string(), message);
        assert_eq!(format.canonical(right), Ok(right.into()));
    }
}

#[test]
fn other_spelling_of_the_same_client_is_canonicalized_in_a_file() {
    let cases = [
        (RegIdIdentValue, "7:WWW.example.com.", "7:www.example.com"),
        (IpAddress, "2001:0DB8::1", "2001:db8::1"),
        (IpAddress, "64:ff9b::192.0.2.1", "192.0.2.1"),
        (Ipv6Range, "2001:0db8:0000::/48", "2001:db8::/48"),
        (FqdnSet, "Example.com,example.com.", COM),
    ];
    #[cfg(feature = "domains")]
    let cases = cases.into_iter().chain([
        (IdFormat::Domain, "Example.com.", "example.com"),
        (IdFormat::RegIdDomain, "7:EXAMPLE.com", "7:example.com"),
        (IdFormat::DomainOrCidr, "203.0.113.7", "203.0.113.7/32"),
        (
            IdFormat::DomainOrCidr,
            "::ffff:203.0.113.7",
            "203.0.113.7/32",
        ),
        (
            IdFormat::DomainOrCidr,
            "2001:0DB8:1:2::",
            "2001:db8:1:2::/64",
        ),
    ]);
    for (format, text, folded) in cases {
        assert_eq!(format.canonical(text), Ok(folded.into()), "{text}");
    }
}

#[test]
fn limits_of_one_client_are_one_group() {
    for (format, id, group) in [
        (IpAddress, "203.0.113.7", "203.0.113.7"),
        (IpAddress, "2001:db8:1:2::", "2001:db8:1::/48"),
        (Ipv6Range, "2001:db8:1::/48", "2001:db8:1::/48"),
        (RegId, "12345678", "12345678"),
        (IdFormat::RegIdDomain, "12345678:example.com", "12345678"),
        (RegIdFqdnSet, "12345678:394e82", "12345678"),
        (RegIdIdentValue, "12345678:2001:db8::1", "12345678"),
        (IdFormat::Domain, "example.com", "example.com"),
        (Opaque, "a:b", "a:b"),
        (IpAddress, MISSING, MISSING),
        (IdFormat::RegIdDomain, MISSING, MISSING),
    ] {
        assert_eq!(format.group(id), group, "{format} {id}");
    }
}

#[test]
fn errors_quote_a_short_text_on_one_line_and_no_secret() {
    let error = IpAddress
        .fold(&format!("a\n{}", "x".repeat(5000)))
        .unwrap_err();
    let message = format!(
        "`a\u{fffd}{}…` is not an id in the format ipAddress: use",
        "x".repeat(78)
    );
    assert!(error.to_string().starts_with(&message), "{error}");
    let error = RegId.fold_id(Id::from("sk-1").secret()).unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("its value is not an id in the format regId: use")
    );
    let error = RegId.fold_id(Id::from("sk-1")).unwrap_err();
    assert!(error.to_string().starts_with("`sk-1` is not"), "{error}");
}

#[test]
fn secret_id_stays_secret_in_another_spelling() {
    let found = Id::from("2001:0db8::1").secret();
    let folded = IpAddress.fold_id(found).unwrap();
    assert!(folded.is_secret() && folded.as_str() == "2001:db8::1");
}

#[test]
fn addresses_of_translators_are_ipv4() {
    for (ip, canonical) in [
        ("64:ff9b::192.0.2.1", "192.0.2.1"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("::ffff:0.0.0.0", "0.0.0.0"),
        ("64:ff9b::", "64:ff9b::"),
        ("64:ff9b::1:0:0", "64:ff9b::1:0:0"),
        ("192.0.2.1", "192.0.2.1"),
        ("::1", "::1"),
    ] {
        let [ip, canonical] = [ip, canonical].map(|ip| ip.parse::<IpAddr>().unwrap());
        assert_eq!(canonical_ip(ip), canonical);
    }
}
