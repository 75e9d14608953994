//! The results, as JSON, tables and pages.

mod chart;
mod curve;
mod page;
mod replay;
mod replay_page;
mod suggest;
mod suggest_page;

pub(crate) use self::{replay::replayed, suggest::suggested};
