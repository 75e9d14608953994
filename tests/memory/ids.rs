//! Ids as a limiter takes them: one client has one bucket, however its id is written, and errors name it.

use tollgate::{
    Limit, Limiter, Limits, MemoryBackend, Transaction, id::IdFormat, limit::LimitName,
};

use crate::support::id_formats;

fn limiter(format: IdFormat) -> Limiter {
    let name = LimitName::new("l", 1, format);
    let limits = Limits::builder().limit(name, Limit::per_hour(1)).build();
    Limiter::new(limits.unwrap(), MemoryBackend::new())
}

/// `src/id/tests.rs` has the spellings of each format.
#[tokio::test]
async fn spellings_of_one_client_share_a_bucket() {
    let limiter = limiter(IdFormat::IpAddress);
    for (id, allowed) in [
        ("2001:db8::1", true),
        ("2001:0DB8:0:0::1", false),
        ("2001:db8::2", true),
    ] {
        let spent = limiter.spend(&Transaction::new("l", id)).await.unwrap();
        assert_eq!(spent.allowed(), allowed, "{id}");
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
