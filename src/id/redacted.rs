//! Hashes that stand for ids where these must not be read.

use std::{
    fmt::Write,
    hash::{BuildHasher, RandomState},
    sync::LazyLock,
};

use arrayvec::ArrayString;

/// `redacted-` and 16 digits.
type RedactedText = ArrayString<25>;

/// Returns the hash of an id, for texts and events. It is stable within a process, and does not reveal the id.
///
/// Clients see the hashes of ids that they have chosen. The hash function of the standard library keeps its key secret all
/// the same.
#[cold]
pub(crate) fn redacted(id: &str) -> RedactedText {
    static SECRET: LazyLock<RandomState> = LazyLock::new(RandomState::new);
    let mut text = RedactedText::new();
    write!(text, "redacted-{:016x}", SECRET.hash_one(id)).expect("there is room for 16 digits");
    text
}
