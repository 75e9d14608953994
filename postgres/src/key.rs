//! How buckets are named in the table.

use std::sync::Arc;

use sha2::{Digest, Sha256};
use tollgate::backend::custom::Member;

/// The longest id that is kept for people.
const LONGEST_ID: usize = 128;

/// The bytes of a hash, which is a part of a SHA-256.
const HASH_BYTES: usize = 16;

/// The name of a bucket.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct BucketName {
    /// The limit and a hash of the id. It is the same whether the id is marked as a secret or not: otherwise, the block of a client
    /// whose id is a header would not be that of its requests.
    pub(crate) key: Arc<[u8]>,
    /// The id, for people; empty if it is a secret or long.
    pub(crate) id: Box<[u8]>,
}

impl BucketName {
    pub(crate) fn new(member: &Member<'_>, hides_ids: bool) -> Self {
        let of = member.key();
        let limit = of.with_id("").to_string();
        let hash = Sha256::digest(of.id);
        let key = limit.bytes().chain(hash[..HASH_BYTES].iter().copied());
        let is_shown = !hides_ids && !member.is_secret() && of.id.len() <= LONGEST_ID;
        let id = if is_shown { of.id } else { "" };
        Self {
            key: key.collect(),
            id: id.as_bytes().into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use tollgate::{Limit, Limits, transaction::Mode};

    use super::*;

    #[test]
    fn ids_can_be_read_unless_they_are_long_or_hidden() {
        let limits = Limits::builder().limit("a", Limit::concurrent(1)).build();
        let limits = limits.unwrap();
        let name = |id: &str, hides_ids| {
            let limit = limits.get("a").unwrap();
            BucketName::new(&Member::new(limit, id, 1, Mode::CheckAndSpend), hides_ids)
        };
        let alice = name("alice", false);
        let key = b"a~c:\x2b\xd8\x06\xc9\x7f\x0e\x00\xaf\x1a\x1f\xc3\x32\x8f\xa7\x63\xa9";
        assert_eq!(*alice.key, *key);
        assert_eq!(*alice.id, *b"alice");
        let hidden = name("alice", true);
        assert_eq!(hidden.key, alice.key);
        assert!(hidden.id.is_empty());
        let long = "x".repeat(129);
        assert!(name(&long, false).id.is_empty());
        assert_ne!(name(&long, false).key, name(&long[1..], false).key);
    }
}
