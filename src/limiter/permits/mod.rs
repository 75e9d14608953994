//! Permits of concurrency limits that this process holds: given back when their work ends, and renewed until then.

mod held;
#[cfg(feature = "tokio")]
mod keeper;
#[cfg(feature = "tokio")]
mod permit;
#[cfg(feature = "tokio")]
mod renewals;
#[cfg(feature = "tokio")]
mod turn;

pub(crate) use self::held::HeldPermit;
#[cfg(feature = "tokio")]
pub(super) use self::keeper::PermitKeeper;
#[cfg(feature = "tokio")]
pub use self::permit::Permit;
