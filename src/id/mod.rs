//! A client's id, as text.

#[expect(clippy::module_inception, reason = "an id is where one looks for it")]
mod id;

pub use self::id::Id;
