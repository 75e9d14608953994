//! The enum of all algorithms.

use super::{
    algorithm_key::AlgorithmKey, concurrency::Concurrency, counting::Counting, gcra::Gcra,
    quota::Quota, tiers::Tiers, window::Window,
};

/// One of the algorithms, or what belongs to one of them. [`Algorithm`] is the form that users see, and
/// [`Limit`](crate::Limit) has constructors for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Each<G, T, W, Q, C> {
    /// A token bucket by the Generic Cell Rate Algorithm.
    Gcra(G),
    /// Sliding windows with active and cooldown periods.
    Tiers(T),
    /// A sliding window.
    Window(W),
    /// A quota for each period of a calendar, or from first use.
    Quota(Q),
    /// Permits that are taken while work runs, and come back when it ends.
    Concurrency(C),
}

/// The algorithm of a bucket, with its parameters. [`Limit`](crate::Limit) has constructors for each.
pub type Algorithm = Each<Gcra, Tiers, Window, Quota, Concurrency>;

/// A charge in a receipt.
pub(crate) type Charge = Each<
    <Gcra as Counting>::Charge,
    <Tiers as Counting>::Charge,
    <Window as Counting>::Charge,
    <Quota as Counting>::Charge,
    <Concurrency as Counting>::Charge,
>;

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
        use $crate::algorithm::each::{Each::$algorithm as $this, by::$algorithm as $by};
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

impl Charge {
    /// The part of bucket keys that stands for the algorithm of the charge.
    pub(crate) const fn key(&self) -> AlgorithmKey {
        each_as!(self, (By, This, _) => By::KEY)
    }

    /// Splits a charge of `rest` and `part` units, of which `part` were charged last. Returns the charge of the part.
    #[expect(unreachable_code, reason = "tiers have no charges")]
    pub(crate) fn split(&mut self, rest: u32, part: u32) -> Self {
        each_as!(self, (By, This, charge) => This(By::split(charge, rest, part)))
    }

    /// Returns the kind of the charge and its numbers, for a text.
    pub(crate) fn numbers(&self) -> (u8, Vec<u64>) {
        each_as!(self, (By, This, charge) => By::charge_numbers(charge))
    }

    /// Reads the numbers of a charge of this kind.
    pub(crate) fn read(kind: u8, bytes: &mut &[u8]) -> Option<Self> {
        let is_of =
            |key: &AlgorithmKey| keyed!(*key, (By, This) => By::CHARGE_KINDS.contains(&kind));
        let key = AlgorithmKey::ALL.into_iter().find(is_of)?;
        keyed!(key, (By, This) => By::read_charge(kind, bytes).map(This))
    }
}
