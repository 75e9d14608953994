//! The scripts that decide on the server.
//!
//! | script | decides |
//! |---|---|
//! | `gcra/spend.lua` | one spend from one bucket |
//! | `gcra/spends.lua` | spends from one bucket each, for several callers |
//! | `uses.lua` | spends of one caller or several from quotas and small windows |
//! | `tiers/grants.lua` | spends of one caller or several from buckets with tiers |
//! | `batch.lua` | batches of all kinds, of one caller or of several |
//!
//! The arithmetic of each algorithm is in its folder, and `member.lua` there has what batches need besides.
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

/// The text of an algorithm's file.
macro_rules! lua {
    ($file:literal) => {
        include_str!(concat!("../../algorithm/", $file))
    };
}

/// The beginning of each script: the time, and the errors of stored values.
macro_rules! head {
    () => {
        concat!(
            include_str!("script/clock.lua"),
            include_str!("script/stored.lua")
        )
    };
}

/// Spends from one bucket. This is by far the most frequent call, so the script is shorter than the others.
pub(super) static SPEND: LazyLock<Script> = LazyLock::new(|| {
    Script::new(concat!(
        head!(),
        lua!("gcra/gcra.lua"),
        lua!("gcra/spend.lua")
    ))
});

/// Spends from one bucket for each of several callers.
static SPENDS: LazyLock<Script> = LazyLock::new(|| {
    Script::new(concat!(
        head!(),
        lua!("gcra/gcra.lua"),
        lua!("gcra/spends.lua")
    ))
});

/// Spends from a quota or a small window for each of several callers.
static USES: LazyLock<Script> = LazyLock::new(|| {
    Script::new(concat!(
        head!(),
        include_str!("script/values.lua"),
        lua!("quota/quota.lua"),
        lua!("window/units.lua"),
        include_str!("script/uses.lua")
    ))
});

/// Spends from a bucket with tiers for each of several callers.
static GRANTS: LazyLock<Script> = LazyLock::new(|| {
    Script::new(concat!(
        head!(),
        include_str!("script/values.lua"),
        lua!("tiers/tiers.lua"),
        lua!("tiers/grants.lua")
    ))
});

/// Performs any operation on any number of buckets, for one caller or several. The functions of an algorithm are created
/// when a batch needs them.
pub(super) static BATCH: LazyLock<Script> = LazyLock::new(|| {
    Script::new(concat!(
        head!(),
        include_str!("script/values.lua"),
        include_str!("script/buckets.lua"),
        "function algorithms.G()\n",
        lua!("gcra/gcra.lua"),
        lua!("gcra/member.lua"),
        "end\nfunction algorithms.T()\n",
        lua!("tiers/tiers.lua"),
        lua!("tiers/member.lua"),
        "end\nfunction algorithms.W()\n",
        lua!("window/units.lua"),
        lua!("window/window.lua"),
        lua!("window/member.lua"),
        "end\nfunction algorithms.C()\n",
        lua!("window/units.lua"),
        lua!("window/window.lua"),
        "local windows = (function()\n",
        lua!("window/member.lua"),
        "end)()\n",
        lua!("concurrency/member.lua"),
        "end\nfunction algorithms.Q()\n",
        lua!("quota/quota.lua"),
        lua!("quota/member.lua"),
        "end\n",
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
