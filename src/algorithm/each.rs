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

/// Evaluates an expression for the algorithm of a key, with its type and its variant of [`Each`].
macro_rules! keyed {
    ($key:expr, ($by:ident, $wrap:ident) => $body:expr) => {
        match $key {
            AlgorithmKey::Gcra => keyed!(Gcra, $by, $wrap, $body),
            AlgorithmKey::Tiers => keyed!(Tiers, $by, $wrap, $body),
            AlgorithmKey::Window => keyed!(Window, $by, $wrap, $body),
            AlgorithmKey::Quota => keyed!(Quota, $by, $wrap, $body),
            AlgorithmKey::Concurrency => keyed!(Concurrency, $by, $wrap, $body),
        }
    };
    ($algorithm:ident, $by:ident, $wrap:ident, $body:expr) => {{
        type $by = $algorithm;
        let $wrap = Algorithm::$algorithm;
        $body
    }};
}

/// Returns the stored state, if it is one of this algorithm.
macro_rules! own {
    ($kept:expr, $algorithm:ident) => {
        match $kept {
            Some(Each::$algorithm(own)) => Some(own),
            _ => None,
        }
    };
}

pub(super) use {each, keyed, map_each, own};

impl Charge {
    /// The part of bucket keys that stands for the algorithm of the charge.
    pub(crate) const fn key(&self) -> AlgorithmKey {
        match self {
            Self::Gcra(_) => Gcra::KEY,
            Self::Tiers(_) => Tiers::KEY,
            Self::Window(_) => Window::KEY,
            Self::Quota(_) => Quota::KEY,
            Self::Concurrency(_) => Concurrency::KEY,
        }
    }

    /// Splits a charge of `rest` and `part` units, of which `part` were charged last. Returns the charge of the part.
    pub(crate) fn split(&mut self, rest: u32, part: u32) -> Self {
        match self {
            Self::Gcra(charge) => Self::Gcra(Gcra::split(charge, rest, part)),
            Self::Tiers(never) => match *never {},
            Self::Window(charge) => Self::Window(Window::split(charge, rest, part)),
            Self::Quota(charge) => Self::Quota(Quota::split(charge, rest, part)),
            Self::Concurrency(charge) => Self::Concurrency(Concurrency::split(charge, rest, part)),
        }
    }

    /// Returns the kind of the charge and its numbers, for a text.
    pub(crate) fn numbers(&self) -> (u8, Vec<u64>) {
        match self {
            Self::Gcra(charge) => Gcra::charge_numbers(charge),
            Self::Tiers(charge) => Tiers::charge_numbers(charge),
            Self::Window(charge) => Window::charge_numbers(charge),
            Self::Quota(charge) => Quota::charge_numbers(charge),
            Self::Concurrency(charge) => Concurrency::charge_numbers(charge),
        }
    }

    /// Reads the numbers of a charge of this kind.
    pub(crate) fn read(kind: u8, bytes: &mut &[u8]) -> Option<Self> {
        match kind {
            kind if Gcra::CHARGE_KINDS.contains(&kind) => {
                Gcra::read_charge(kind, bytes).map(Each::Gcra)
            }
            kind if Tiers::CHARGE_KINDS.contains(&kind) => {
                Tiers::read_charge(kind, bytes).map(Each::Tiers)
            }
            kind if Window::CHARGE_KINDS.contains(&kind) => {
                Window::read_charge(kind, bytes).map(Each::Window)
            }
            kind if Quota::CHARGE_KINDS.contains(&kind) => {
                Quota::read_charge(kind, bytes).map(Each::Quota)
            }
            kind if Concurrency::CHARGE_KINDS.contains(&kind) => {
                Concurrency::read_charge(kind, bytes).map(Each::Concurrency)
            }
            _ => None,
        }
    }
}
