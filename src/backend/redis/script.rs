//! The scripts that decide on the server.
//!
//! | script | what it decides |
//! |---|---|
//! | `spend.lua` | one spend from one bucket |
//! | `spends.lua` | such spends of several callers |
//! | `uses.lua` | spends of one caller or several from quotas and small windows |
//! | `batch.lua` | batches of all kinds, of one caller or of several |
//!
//! A script does no more than compare and add. It answers with what was stored, the time, and whether it has stored
//! anything. What that means is computed by [`Outcome::judge`](crate::decision::Outcome), as for every backend, and the two
//! must agree.

use std::sync::LazyLock;

use fred::util::sha1_hash;

/// A script, and the name that Redis has for it.
#[derive(Debug)]
pub(super) struct Script {
    pub(super) text: &'static str,
    pub(super) sha: String,
}

impl Script {
    fn new(text: &'static str) -> Self {
        Self {
            text,
            sha: sha1_hash(text),
        }
    }
}

/// Spends from one bucket: by far the most frequent, and so by a shorter script than the others.
pub(super) static SPEND: LazyLock<Script> = LazyLock::new(|| {
    Script::new(concat!(
        include_str!("script/clock.lua"),
        include_str!("script/stored.lua"),
        include_str!("script/spend.lua")
    ))
});

/// Spends from one bucket for each of several callers.
pub(super) static SPENDS: LazyLock<Script> = LazyLock::new(|| {
    Script::new(concat!(
        include_str!("script/clock.lua"),
        include_str!("script/stored.lua"),
        include_str!("script/spends.lua")
    ))
});

/// Spends from a quota or a small window for each of several callers.
pub(super) static USES: LazyLock<Script> = LazyLock::new(|| {
    Script::new(concat!(
        include_str!("script/clock.lua"),
        include_str!("script/stored.lua"),
        include_str!("script/quotas.lua"),
        include_str!("script/uses.lua")
    ))
});

/// Does whatever is asked to any number of buckets, for one caller or several.
pub(super) static BATCH: LazyLock<Script> = LazyLock::new(|| {
    Script::new(concat!(
        include_str!("script/clock.lua"),
        include_str!("script/stored.lua"),
        include_str!("script/tiers.lua"),
        include_str!("script/windows.lua"),
        include_str!("script/quotas.lua"),
        include_str!("script/batch.lua")
    ))
});

/// What every server should have loaded.
pub(super) fn scripts() -> [&'static Script; 4] {
    [&SPEND, &SPENDS, &USES, &BATCH]
}
