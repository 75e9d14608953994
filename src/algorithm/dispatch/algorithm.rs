//! The algorithm of a bucket, and macros that evaluate an expression for it.

use crate::algorithm::{
    concurrency::Concurrency, each::Each, gcra::Gcra, quota::Quota, tiers::Tiers, window::Window,
};

/// The algorithm of a bucket, with its parameters. [`Limit`](crate::Limit) has constructors for each.
pub type Algorithm = Each<Gcra, Tiers, Window, Quota, Concurrency>;

/// Evaluates an expression for the algorithm of a value, or for that of several values with the same one.
macro_rules! each {
    (($($one:expr),+), ($($a:pat),+) => $body:expr, _ => $other:expr) => {
        match ($($one),+) {
            ($(Each::Gcra($a)),+) => $body,
            ($(Each::Tiers($a)),+) => $body,
            ($(Each::Window($a)),+) => $body,
            ($(Each::Quota($a)),+) => $body,
            ($(Each::Concurrency($a)),+) => $body,
            _ => $other,
        }
    };
    ($one:expr, $a:pat => $body:expr) => {
        match $one {
            Each::Gcra($a) => $body,
            Each::Tiers($a) => $body,
            Each::Window($a) => $body,
            Each::Quota($a) => $body,
            Each::Concurrency($a) => $body,
        }
    };
}

/// Does the same, and returns a value that belongs to this algorithm. For several values without another case, it is
/// `None` if they do not have the same one.
macro_rules! map_each {
    (($($one:expr),+), ($($a:pat),+) => $body:expr, _ => $other:expr) => {
        match ($($one),+) {
            ($(Each::Gcra($a)),+) => Each::Gcra($body),
            ($(Each::Tiers($a)),+) => Each::Tiers($body),
            ($(Each::Window($a)),+) => Each::Window($body),
            ($(Each::Quota($a)),+) => Each::Quota($body),
            ($(Each::Concurrency($a)),+) => Each::Concurrency($body),
            _ => $other,
        }
    };
    (($($one:expr),+), ($($a:pat),+) => $body:expr) => {
        match ($($one),+) {
            ($(Each::Gcra($a)),+) => Some(Each::Gcra($body)),
            ($(Each::Tiers($a)),+) => Some(Each::Tiers($body)),
            ($(Each::Window($a)),+) => Some(Each::Window($body)),
            ($(Each::Quota($a)),+) => Some(Each::Quota($body)),
            ($(Each::Concurrency($a)),+) => Some(Each::Concurrency($body)),
            _ => None,
        }
    };
    ($one:expr, $a:pat => $body:expr) => {
        match $one {
            Each::Gcra($a) => Each::Gcra($body),
            Each::Tiers($a) => Each::Tiers($body),
            Each::Window($a) => Each::Window($body),
            Each::Quota($a) => Each::Quota($body),
            Each::Concurrency($a) => Each::Concurrency($body),
        }
    };
}

/// Evaluates an expression for the algorithm of a value, or for that of several values with the same one. The expression can
/// name the type of the algorithm, and the variant of [`Each`] that belongs to it.
macro_rules! each_as {
    (($($one:expr),+), ($by:ident, $this:ident, $($a:pat),+) => $body:expr, _ => $other:expr) => {
        match ($($one),+) {
            ($(Each::Gcra($a)),+) => each_as!(Gcra, $by, $this, $body),
            ($(Each::Tiers($a)),+) => each_as!(Tiers, $by, $this, $body),
            ($(Each::Window($a)),+) => each_as!(Window, $by, $this, $body),
            ($(Each::Quota($a)),+) => each_as!(Quota, $by, $this, $body),
            ($(Each::Concurrency($a)),+) => each_as!(Concurrency, $by, $this, $body),
            _ => $other,
        }
    };
    ($one:expr, ($by:ident, $this:ident, $a:pat) => $body:expr) => {
        match $one {
            Each::Gcra($a) => each_as!(Gcra, $by, $this, $body),
            Each::Tiers($a) => each_as!(Tiers, $by, $this, $body),
            Each::Window($a) => each_as!(Window, $by, $this, $body),
            Each::Quota($a) => each_as!(Quota, $by, $this, $body),
            Each::Concurrency($a) => each_as!(Concurrency, $by, $this, $body),
        }
    };
    ($algorithm:ident, $by:ident, $this:ident, $body:expr) => {{
        #[allow(unused_imports, reason = "not each expression names both")]
        use $crate::algorithm::{
            dispatch::algorithm::by::$algorithm as $by, each::Each::$algorithm as $this,
        };
        $body
    }};
}

/// Does the same for the algorithm of a key.
macro_rules! keyed {
    ($key:expr, ($by:ident, $this:ident) => $body:expr) => {
        match $key {
            AlgorithmKey::Gcra => each_as!(Gcra, $by, $this, $body),
            AlgorithmKey::Tiers => each_as!(Tiers, $by, $this, $body),
            AlgorithmKey::Window => each_as!(Window, $by, $this, $body),
            AlgorithmKey::Quota => each_as!(Quota, $by, $this, $body),
            AlgorithmKey::Concurrency => each_as!(Concurrency, $by, $this, $body),
        }
    };
}

pub(super) use {each, each_as, keyed, map_each};

/// The algorithms, by the names of their variants.
pub(super) mod by {
    pub(in crate::algorithm) use crate::algorithm::{
        concurrency::Concurrency, gcra::Gcra, quota::Quota, tiers::Tiers, window::Window,
    };
}
