//! The scripts that decide on the server.
//!
//! | script | decides |
//! |---|---|
//! | `spend.lua` | one spend from one bucket |
//! | `spends.lua` | spends from one bucket each, for several callers |
//! | `uses.lua` | spends of one caller or several from quotas and small windows |
//! | `grants.lua` | spends of one caller or several from buckets with tiers |
//! | `batch.lua` | batches of all kinds, of one caller or of several |
//!
//! A script only compares and adds. It answers with the stored states, the time, and whether it has stored anything.
//! [`Outcome::judge`](crate::decision::Outcome) computes the decision from these, as for every backend. The script and
//! `judge` must agree.

use std::sync::LazyLock;

use fred::util::sha1_hash;

use crate::algorithm::GroupScript;

/// A script, and its hash.
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

/// Spends from one bucket. This is by far the most frequent call, so the script is shorter than the others.
pub(super) static SPEND: LazyLock<Script> = LazyLock::new(|| {
    Script::new(concat!(
        include_str!("script/clock.lua"),
        include_str!("script/stored.lua"),
        include_str!("script/spend.lua")
    ))
});

/// Spends from one bucket for each of several callers.
static SPENDS: LazyLock<Script> = LazyLock::new(|| {
    Script::new(concat!(
        include_str!("script/clock.lua"),
        include_str!("script/stored.lua"),
        include_str!("script/spends.lua")
    ))
});

/// Spends from a quota or a small window for each of several callers.
static USES: LazyLock<Script> = LazyLock::new(|| {
    Script::new(concat!(
        include_str!("script/clock.lua"),
        include_str!("script/stored.lua"),
        include_str!("script/quotas.lua"),
        include_str!("script/units.lua"),
        include_str!("script/uses.lua")
    ))
});

/// Spends from a bucket with tiers for each of several callers.
static GRANTS: LazyLock<Script> = LazyLock::new(|| {
    Script::new(concat!(
        include_str!("script/clock.lua"),
        include_str!("script/stored.lua"),
        include_str!("script/tiers.lua"),
        include_str!("script/grants.lua")
    ))
});

/// Performs any operation on any number of buckets, for one caller or several.
pub(super) static BATCH: LazyLock<Script> = LazyLock::new(|| {
    Script::new(concat!(
        include_str!("script/clock.lua"),
        include_str!("script/stored.lua"),
        include_str!("script/tiers.lua"),
        include_str!("script/units.lua"),
        include_str!("script/windows.lua"),
        include_str!("script/quotas.lua"),
        include_str!("script/batch.lua")
    ))
});

/// Does nothing. It shows whether the user may run scripts.
pub(super) static PROBE: LazyLock<Script> = LazyLock::new(|| Script::new("return 1"));

/// Returns a script for spends of several callers.
pub(super) fn group_script(group: GroupScript) -> &'static Script {
    match group {
        GroupScript::Spends => &SPENDS,
        GroupScript::Uses => &USES,
        GroupScript::Grants => &GRANTS,
    }
}

/// All scripts, which every server should have loaded.
pub(super) fn scripts() -> [&'static Script; 5] {
    [&SPEND, &SPENDS, &USES, &GRANTS, &BATCH]
}
