//! The algorithm of a bucket, and macros that evaluate an expression for it.

use crate::algorithm::{
    concurrency::Concurrency, each::Each, gcra::Gcra, quota::Quota, tiers::Tiers, window::Window,
};

/// The algorithm of a bucket, with its parameters. [`Limit`](crate::Limit) has constructors for each.
pub type Algorithm = Each<Gcra, Tiers, Window, Quota, Concurrency>;

/// Evaluates an expression for the algorithm of a value, or for that of several values with the same one. The expression can
/// name the type of the algorithm, and the variant of [`Each`] that belongs to it.
macro_rules! each_as {
    (($($one:expr),+), ($by:ident, $this:ident, $($a:pat),+) => $body:expr, _ => $other:expr) => {
        match ($($one),+) {
            ($(Each::Gcra($a)),+) => $crate::algorithm::dispatch::algorithm::each_as!(Gcra, $by, $this, $body),
            ($(Each::Tiers($a)),+) => $crate::algorithm::dispatch::algorithm::each_as!(Tiers, $by, $this, $body),
            ($(Each::Window($a)),+) => $crate::algorithm::dispatch::algorithm::each_as!(Window, $by, $this, $body),
            ($(Each::Quota($a)),+) => $crate::algorithm::dispatch::algorithm::each_as!(Quota, $by, $this, $body),
            ($(Each::Concurrency($a)),+) => $crate::algorithm::dispatch::algorithm::each_as!(Concurrency, $by, $this, $body),
            _ => $other,
        }
    };
    ($one:expr, ($by:ident, $this:ident, $a:pat) => $body:expr) => {
        match $one {
            Each::Gcra($a) => $crate::algorithm::dispatch::algorithm::each_as!(Gcra, $by, $this, $body),
            Each::Tiers($a) => $crate::algorithm::dispatch::algorithm::each_as!(Tiers, $by, $this, $body),
            Each::Window($a) => $crate::algorithm::dispatch::algorithm::each_as!(Window, $by, $this, $body),
            Each::Quota($a) => $crate::algorithm::dispatch::algorithm::each_as!(Quota, $by, $this, $body),
            Each::Concurrency($a) => $crate::algorithm::dispatch::algorithm::each_as!(Concurrency, $by, $this, $body),
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

/// Does the same with an expression that names neither.
macro_rules! each {
    (($($one:expr),+), ($($a:pat),+) => $body:expr, _ => $other:expr) => {
        $crate::algorithm::dispatch::algorithm::each_as!(($($one),+), (By, This, $($a),+) => $body, _ => $other)
    };
    ($one:expr, $a:pat => $body:expr) => {
        $crate::algorithm::dispatch::algorithm::each_as!($one, (By, This, $a) => $body)
    };
}

/// Does the same, and returns a value that belongs to this algorithm. For several values without another case, it is
/// `None` if they do not have the same one.
macro_rules! map_each {
    (($($one:expr),+), ($($a:pat),+) => $body:expr, _ => $other:expr) => {
        $crate::algorithm::dispatch::algorithm::each_as!(($($one),+), (By, This, $($a),+) => This($body), _ => $other)
    };
    (($($one:expr),+), ($($a:pat),+) => $body:expr) => {
        $crate::algorithm::dispatch::algorithm::each_as!(($($one),+), (By, This, $($a),+) => Some(This($body)), _ => None)
    };
    ($one:expr, $a:pat => $body:expr) => {
        $crate::algorithm::dispatch::algorithm::each_as!($one, (By, This, $a) => This($body))
    };
}

/// Evaluates an expression for the algorithm of a key.
macro_rules! keyed {
    ($key:expr, ($by:ident, $this:ident) => $body:expr) => {
        match $key {
            AlgorithmKey::Gcra => {
                $crate::algorithm::dispatch::algorithm::each_as!(Gcra, $by, $this, $body)
            }
            AlgorithmKey::Tiers => {
                $crate::algorithm::dispatch::algorithm::each_as!(Tiers, $by, $this, $body)
            }
            AlgorithmKey::Window => {
                $crate::algorithm::dispatch::algorithm::each_as!(Window, $by, $this, $body)
            }
            AlgorithmKey::Quota => {
                $crate::algorithm::dispatch::algorithm::each_as!(Quota, $by, $this, $body)
            }
            AlgorithmKey::Concurrency => {
                $crate::algorithm::dispatch::algorithm::each_as!(Concurrency, $by, $this, $body)
            }
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

#[cfg(test)]
mod tests {
    use super::Each;
    use crate::algorithm::AlgorithmKey;

    #[test]
    fn several_values_of_any_algorithm_belong_together() {
        for key in AlgorithmKey::ALL {
            let one: Each<(), (), (), (), ()> = keyed!(key, (By, This) => This(()));
            let are_alike = each!((one, one), ((), ()) => true, _ => false);
            assert!(are_alike, "{key:?}");
        }
    }
}
