//! The scripts that decide on the server.
//!
//! | script | decides |
//! |---|---|
//! | `batch.lua` | batches of all kinds, of one caller or of several |
//! | `gcra/spends.lua` | the most frequent batches, in less time: spends from one bucket each, by GCRA |
//!
//! The arithmetic of each algorithm is in its folder. Both scripts have the same arguments and answers.
//!
//! A script only compares and adds. It answers with the stored states, the time, and whether it has stored anything.
//! [`Outcome::judge`](crate::decision::Outcome) computes the decision from these, as for every backend. The script and
//! `judge` must agree.

use std::sync::LazyLock;

use fred::util::sha1_hash;

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

/// Spends from one bucket for each of several callers.
pub(super) static SPENDS: LazyLock<Script> = LazyLock::new(|| {
    Script::new(concat!(
        head!(),
        lua!("gcra/gcra.lua"),
        lua!("gcra/spends.lua")
    ))
});

/// Performs any operation on any number of buckets, for one caller or several. The functions of an algorithm are created
/// when a batch needs them.
pub(super) static BATCH: LazyLock<Script> = LazyLock::new(|| {
    Script::new(concat!(
        head!(),
        include_str!("script/members.lua"),
        "function algorithms.G()\n",
        lua!("gcra/gcra.lua"),
        lua!("gcra/member.lua"),
        "end\nfunction algorithms.T()\n",
        lua!("tiers/tiers.lua"),
        "end\nfunction algorithms.W()\n",
        lua!("window/window.lua"),
        "return read\nend\nfunction algorithms.C()\n",
        lua!("window/window.lua"),
        lua!("concurrency/concurrency.lua"),
        "return read\nend\nfunction algorithms.Q()\n",
        lua!("quota/quota.lua"),
        "end\n",
        include_str!("script/batch.lua")
    ))
});

/// Does nothing. It shows whether the user may run scripts.
pub(super) static PROBE: LazyLock<Script> = LazyLock::new(|| Script::new("return 1"));

/// All scripts, which every server should have loaded.
pub(super) fn scripts() -> [&'static Script; 2] {
    [&SPENDS, &BATCH]
}
