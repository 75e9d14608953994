//! The script that decides on the server: the driver, and the arithmetic of each algorithm, which is in its folder.

use std::sync::LazyLock;

use fred::util::sha1_hash;

pub(super) const TEXT: &str = concat!(
    include_str!("driver.lua"),
    include_str!("../../algorithm/gcra/gcra.lua"),
    include_str!("../../algorithm/quota/quota.lua"),
    include_str!("../../algorithm/window/window.lua"),
    include_str!("../../algorithm/tiers/tiers.lua"),
    "return run()\n",
);

/// The hash by which servers know it.
pub(super) static SHA: LazyLock<String> = LazyLock::new(|| sha1_hash(TEXT));
