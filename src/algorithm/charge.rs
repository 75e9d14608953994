//! A charge in a receipt.

use std::convert::Infallible;

use super::{each::Each, gcra::GcraCharge, quota::QuotaCharge, window::WindowCharge};

/// A charge in a receipt. A grant of tiers cannot be undone.
pub(crate) type Charge = Each<GcraCharge, Infallible, WindowCharge, QuotaCharge, WindowCharge>;
