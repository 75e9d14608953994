//! The files that Boulder's documents show, as they are written there.

use tollgate::{
    Limit, Limits,
    id::IdFormat,
    limit::{Language::Yaml, LimitName, LimitsBuilder},
    transaction::BucketKey,
};

use crate::{limit, limit_of};

const DEFAULTS: &str = "\
NewRegistrationsPerIPAddress:
  burst: 20
  count: 20
  period: 1s
NewOrdersPerAccount:
  burst: 300
  count: 300
  period: 180m
";

const LISTED: &str = "\
- NewRegistrationsPerIPAddress:
    burst: 20
    count: 40
    period: 1s
    ids:
      - 10.0.0.2
      - 10.0.0.5
- NewOrdersPerAccount:
    burst: 300
    count: 600
    period: 180m
    ids:
      - 12345678
      - 87654321
";

const LISTED_FOOS: &str = "\
- NewFoosPerIPAddress:
    burst: 20
    count: 20
    period: 1s
    ids:
      - 172.23.45.22
";

const KEYED: &str = "\
NewRegistrationsPerIPAddress:10.0.0.2:
  burst: 20
  count: 40
  period: 1s
NewOrdersPerAccount:12345678:
  burst: 300
  count: 600
  period: 180m
";

const KEYED_FOOS: &str = "\
NewFoosPerIPAddress:172.23.45.22:
  burst: 20
  count: 20
  period: 1s
";

const OWN: Limit = Limit::per_second(7);

const OWN_IN_YAML: &str = "{burst: 7, count: 7, period: 1s}";

fn boulder() -> LimitsBuilder {
    [
        ("NewRegistrationsPerIPAddress", 1, IdFormat::IpAddress),
        ("NewRegistrationsPerIPv6Range", 2, IdFormat::Ipv6Range),
        ("CertificatesPerDomain", 3, IdFormat::Domain),
        ("CertificatesPerFQDNSet", 4, IdFormat::FqdnSet),
        ("NewFoosPerIPAddress", 5, IdFormat::IpAddress),
        ("NewOrdersPerAccount", 6, IdFormat::RegId),
        ("CertificatesPerDomainPerAccount", 7, IdFormat::RegIdDomain),
        (
            "CertificatesPerFQDNSetPerAccount",
            8,
            IdFormat::RegIdFqdnSet,
        ),
    ]
    .into_iter()
    .fold(Limits::builder(), |builder, (name, number, format)| {
        builder.name(LimitName::new(name, number, format))
    })
}

fn with_overrides(yaml: &str) -> Limits {
    let builder = boulder().defaults_text(Yaml, DEFAULTS);
    builder.overrides_text(Yaml, yaml).build().unwrap()
}

/// The keys of all overridden buckets.
fn keys(limits: &Limits) -> Vec<String> {
    let named = limits.iter();
    named
        .flat_map(|named| {
            let overrides = named.overrides();
            overrides.map(|own| BucketKey::new(named.name.key(), own.folded).to_string())
        })
        .collect()
}

#[test]
fn defaults_are_read_as_written() {
    let limits = boulder().defaults_text(Yaml, DEFAULTS).build().unwrap();
    for ip in ["10.0.0.2", "::ffff:10.0.0.2", "2001:db8::1"] {
        let found = limit_of(&limits, "NewRegistrationsPerIPAddress", ip);
        assert_eq!(found, Some(&limit(20, 20, 1)), "{ip}");
    }
    for account in ["0", "12345678", "18446744073709551615"] {
        let found = limit_of(&limits, "NewOrdersPerAccount", account);
        assert_eq!(found, Some(&limit(300, 300, 3 * 60 * 60)), "{account}");
    }
    assert_eq!(limit_of(&limits, "NewFoosPerIPAddress", "10.0.0.2"), None);
}

#[test]
fn listed_ids_have_their_own_limits_and_others_the_defaults() {
    let limits = with_overrides(LISTED);
    let ip = |id| limit_of(&limits, "NewRegistrationsPerIPAddress", id).unwrap();
    for own in [
        "10.0.0.2",
        "10.0.0.5",
        "::ffff:10.0.0.2",
        "::FFFF:0a00:0005",
        "0:0:0:0:0:ffff:10.0.0.5",
    ] {
        assert_eq!(*ip(own), limit(20, 40, 1), "{own}");
    }
    for other in ["10.0.0.3", "10.0.0.25", "1.10.0.2", "::10.0.0.2"] {
        assert_eq!(*ip(other), limit(20, 20, 1), "{other}");
    }
    let account = |id| limit_of(&limits, "NewOrdersPerAccount", id).unwrap();
    for own in ["12345678", "87654321"] {
        assert_eq!(*account(own), limit(300, 600, 3 * 60 * 60), "{own}");
    }
    for other in ["1234567", "123456780", "0"] {
        assert_eq!(*account(other), limit(300, 300, 3 * 60 * 60), "{other}");
    }
    assert_eq!(
        keys(&limits),
        ["1:10.0.0.2", "1:10.0.0.5", "6:12345678", "6:87654321"]
    );
}

#[test]
fn keyed_ids_have_their_own_limits_and_others_the_defaults() {
    let limits = with_overrides(KEYED);
    let ip = |id| limit_of(&limits, "NewRegistrationsPerIPAddress", id).unwrap();
    for (id, count) in [("10.0.0.2", 40), ("::ffff:10.0.0.2", 40), ("10.0.0.5", 20)] {
        assert_eq!(*ip(id), limit(20, count, 1), "{id}");
    }
    let account = |id| limit_of(&limits, "NewOrdersPerAccount", id).unwrap();
    for (id, count) in [("12345678", 600), ("87654321", 300)] {
        assert_eq!(*account(id), limit(300, count, 3 * 60 * 60), "{id}");
    }
    assert_eq!(keys(&limits), ["1:10.0.0.2", "6:12345678"]);
}

#[test]
fn foos_are_limited_for_one_subscriber_only() {
    for yaml in [LISTED_FOOS, KEYED_FOOS] {
        let limits = with_overrides(yaml);
        let foos = |ip| limit_of(&limits, "NewFoosPerIPAddress", ip);
        assert_eq!(foos("172.23.45.22"), Some(&limit(20, 20, 1)), "{yaml}");
        assert_eq!(foos("::ffff:172.23.45.22"), Some(&limit(20, 20, 1)));
        assert_eq!(foos("172.23.45.2"), None, "{yaml}");
        assert_eq!(keys(&limits), ["5:172.23.45.22"]);
    }
}

/// The examples of ids: the limit, the id as it is written, its bucket's key, other spellings of it
/// that requests bring, and ids of others.
type Example = (
    &'static str,
    &'static str,
    &'static str,
    &'static [&'static str],
    &'static [&'static str],
);

const EXAMPLES: &[Example] = &[
    (
        "NewRegistrationsPerIPAddress",
        "10.0.0.1",
        "1:10.0.0.1",
        &["::ffff:10.0.0.1", "::ffff:a00:1"],
        &["10.0.0.10", "10.0.0.2", "::10.0.0.1"],
    ),
    (
        "NewRegistrationsPerIPAddress",
        "2001:0db8:0000:0000:0000:ff00:0042:8329",
        "1:2001:db8::ff00:42:8329",
        &[
            "2001:db8::ff00:42:8329",
            "2001:DB8:0:0:0:FF00:0042:8329",
            "2001:0db8::ff00:0.66.131.41",
            "2001:db8::ff00:42:8329%eth0",
        ],
        &["2001:db8::ff00:42:8328", "2001:db8::"],
    ),
    (
        "NewRegistrationsPerIPv6Range",
        "2001:0db8:0000::/48",
        "2:2001:db8::/48",
        &[
            "2001:db8::/48",
            "2001:db8::1",
            "2001:0DB8:0:ffff:ffff:ffff:ffff:ffff",
        ],
        &["2001:db8:1::/48", "2001:db7::1"],
    ),
    (
        "NewOrdersPerAccount",
        "12345678",
        "6:12345678",
        &[],
        &["123456789", "2345678", "0"],
    ),
    (
        "CertificatesPerDomain",
        "example.com",
        "3:example.com",
        &[
            "EXAMPLE.com",
            "www.example.com",
            "example.com.",
            "*.example.com",
        ],
        &["example.org", "anexample.com", "example.com.uk"],
    ),
    (
        "CertificatesPerFQDNSet",
        "example.com,example.org",
        "4:36b9d2294255745d0f491b3f04f6490de45cc7241f650ba58c3e4e61a2344efc",
        &[
            "example.org,example.com",
            "Example.COM,example.org.,example.com",
        ],
        &["example.com", "example.com,www.example.org"],
    ),
    (
        "CertificatesPerDomainPerAccount",
        "12345678:example.com",
        "7:12345678:example.com",
        &["12345678:www.Example.com"],
        &["12345679:example.com", "12345678:example.org"],
    ),
    (
        "CertificatesPerFQDNSetPerAccount",
        "12345678:example.com,example.org",
        "8:12345678:36b9d2294255745d0f491b3f04f6490de45cc7241f650ba58c3e4e61a2344efc",
        &["12345678:EXAMPLE.org,example.com"],
        &["87654321:example.com,example.org", "12345678:example.com"],
    ),
];

#[test]
fn examples_of_ids_are_found_by_all_spellings() {
    for (name, id, key, same, others) in EXAMPLES {
        let listed = format!(
            "- {name}:\n    burst: 7\n    count: 7\n    period: 1s\n    ids:\n      - {id}\n"
        );
        let keyed = format!("{name}:{id}: {OWN_IN_YAML}\n");
        for yaml in [listed, keyed] {
            let limits = boulder().overrides_text(Yaml, &yaml).build().unwrap();
            assert_eq!(keys(&limits), [*key]);
            for id in same.iter().chain([id]) {
                assert_eq!(limit_of(&limits, name, id), Some(&OWN), "{id} in {yaml}");
            }
            for id in *others {
                assert_eq!(limit_of(&limits, name, id), None, "{id} in {yaml}");
            }
        }
    }
}
