//! Ids as a limiter takes them: one client has one bucket, however its id is written, and errors name it.

use tollgate::{
    Limit, Limiter, Limits, MemoryBackend, Transaction,
    id::IdFormat::{self, FqdnSet, IpAddress, Ipv6Range, Opaque, RegId, RegIdFqdnSet},
    limit::LimitName,
};

use crate::support::id_formats;

fn limiter(format: IdFormat) -> Limiter {
    let name = LimitName::new("l", 1, format);
    let limits = Limits::builder().limit(name, Limit::per_hour(1)).build();
    Limiter::new(limits.unwrap(), MemoryBackend::new())
}

/// Whether two ids are of one client: the second request is denied then.
async fn are_one(format: IdFormat, first: &str, second: &str) -> bool {
    let limiter = limiter(format);
    let spend = async |id| limiter.spend(&Transaction::new("l", id)).await;
    assert!(spend(first).await.unwrap().allowed());
    !spend(second).await.unwrap().allowed()
}

#[tokio::test]
async fn spellings_of_one_client_share_a_bucket_and_clients_never_do() {
    for (format, first, same, other) in [
        (Opaque, "alice", "alice", "Alice"),
        (IpAddress, "2001:db8::1", "2001:0DB8:0:0::1", "2001:db8::2"),
        (IpAddress, "192.0.2.1", "::ffff:192.0.2.1", "192.0.2.2"),
        (
            Ipv6Range,
            "2001:db8:7::1",
            "2001:db8:7:ffff::/48",
            "2001:db8:8::1",
        ),
        (RegId, "7", "7", "70"),
        (FqdnSet, "a.com,b.com", "B.com,a.com.,a.com", "a.com"),
        (
            RegIdFqdnSet,
            "7:a.com,b.com",
            "7:b.com,a.com",
            "8:a.com,b.com",
        ),
        #[cfg(feature = "domains")]
        (
            IdFormat::Domain,
            "www.example.co.uk",
            "EXAMPLE.co.uk",
            "example.com",
        ),
        (
            IdFormat::RegIdIdentValue,
            "7:2001:db8::1",
            "7:2001:0DB8::1",
            "7:2001:db8::2",
        ),
        #[cfg(feature = "domains")]
        (
            IdFormat::DomainOrCidr,
            "2001:db8:1:2::1",
            "2001:db8:1:2::2",
            "2001:db8:1:3::1",
        ),
        #[cfg(feature = "domains")]
        (
            IdFormat::RegIdDomainOrCidr,
            "7:203.0.113.7",
            "7:::ffff:203.0.113.7",
            "7:203.0.113.8",
        ),
        #[cfg(feature = "domains")]
        (
            IdFormat::RegIdDomain,
            "7:www.example.com",
            "7:example.com",
            "8:example.com",
        ),
    ] {
        assert!(are_one(format, first, same).await, "{format} {same}");
        assert!(!are_one(format, first, other).await, "{format} {other}");
    }
}

#[tokio::test]
async fn requests_without_an_id_share_a_bucket_of_their_own() {
    for format in id_formats() {
        let limiter = limiter(format);
        let missing = Transaction::missing("l");
        assert!(limiter.spend(&missing).await.unwrap().allowed());
        assert!(!limiter.spend(&missing).await.unwrap().allowed());
        let claimed = Transaction::new("l", "\u{ab}missing\u{bb}");
        let error = limiter.spend(&claimed).await.unwrap_err().to_string();
        assert!(error.contains("use `Transaction::missing`"), "{error}");
    }
}
