//! Limits, their names, and the files that define them.
//!
//! A [`Limit`] is a burst and a rate. It belongs to a [`LimitName`], which is part of the keys of its buckets.
//! [`Limits`] holds all names with their limits, from code or from files:
//!
//! ```
//! use std::time::Duration;
//! use tollgate::{Limit, Limits, id::IdFormat, limit::LimitName};
//!
//! let limits = Limits::builder()
//!     .limit("requests", Limit::per_second(10).burst(20))
//!     .limit(
//!         LimitName::new("NewOrdersPerAccount", 6, IdFormat::RegId),
//!         Limit::new(300, 300, Duration::from_secs(3 * 60 * 60))?,
//!     )
//!     .build()?;
//! # let _ = limits;
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```
//!
//! [`LimitsBuilder::defaults_file`] and [`LimitsBuilder::overrides_file`] read limits from files. The
//! [guide](crate::guide::limits_in_files) describes their format.

mod assembly;
mod bounds;
mod builder;
mod client_override;
mod file;
#[expect(clippy::module_inception, reason = "a limit is where one looks for it")]
mod limit;
mod limits;
mod mistake;
mod name;
mod named;
mod notation;
mod overrides;
mod ranges;
mod reading;

pub use self::{
    builder::LimitsBuilder, client_override::Override, limit::Limit, limits::Limits,
    mistake::LimitsError, name::LimitName, named::NamedLimit,
};
pub(crate) use self::{
    file::Document,
    mistake::{Mistakes, Reporter},
    named::REMAINING,
};
pub use crate::algorithm::{LimitError, format_duration, parse_duration};
