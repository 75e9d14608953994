//! The keys of buckets in the table.

use sha2::{Digest, Sha256};
use tollgate::backend::custom::Member;

/// The longest id that is written as it is. Longer ids are hashed.
const LONGEST_ID: usize = 128;

/// The byte before a hash. Readable keys cannot contain it, because it never occurs in UTF-8.
const HASH: u8 = 0xff;

/// The bytes of a hash, which is a part of a SHA-256.
const HASH_BYTES: usize = 16;

/// The form of the keys of buckets.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct KeyForm {
    /// Whether all ids are hashed, or only secret and long ones.
    pub(crate) hashes_all: bool,
}

impl KeyForm {
    /// Returns the key of a member's bucket: `6:12345678`, or the same with a hash instead of the id.
    pub(crate) fn key(self, member: &Member<'_>) -> Box<[u8]> {
        let key = member.key();
        if !self.hashes_all && !member.is_secret() && key.id.len() <= LONGEST_ID {
            return key.to_string().into_bytes().into();
        }
        let mut bytes = key.with_id("").to_string().into_bytes();
        bytes.push(HASH);
        bytes.extend_from_slice(&Sha256::digest(key.id)[..HASH_BYTES]);
        bytes.into()
    }
}

#[cfg(test)]
mod tests {
    use tollgate::{Limit, Limits, transaction::Mode};

    use super::*;

    #[test]
    fn ids_can_be_read_unless_they_are_long_or_all_are_hashed() {
        let limits = Limits::builder().limit("a", Limit::concurrent(1)).build();
        let limits = limits.unwrap();
        let key = |form: KeyForm, id: &str| {
            form.key(&Member::new(
                limits.get("a").unwrap(),
                id,
                1,
                Mode::CheckAndSpend,
            ))
        };
        let readable = KeyForm::default();
        assert_eq!(&*key(readable, "alice"), b"a~c:alice");
        let hashed = key(KeyForm { hashes_all: true }, "alice");
        let hash = b"a~c:\xff\x2b\xd8\x06\xc9\x7f\x0e\x00\xaf\x1a\x1f\xc3\x32\x8f\xa7\x63\xa9";
        assert_eq!(&*hashed, hash);
        let long = "x".repeat(129);
        assert_eq!(key(readable, &long).len(), hash.len());
        assert_ne!(key(readable, &long), key(readable, &(long.clone() + "x")));
    }
}
