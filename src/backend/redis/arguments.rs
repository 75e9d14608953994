//! The arguments and replies of scripts.

use fred::types::Value;

use crate::{
    algorithm::{Argument, Replied},
    clock::Timestamp,
};

/// Stands for the server's own clock.
const SERVERS_CLOCK: Value = Value::Integer(-1);

/// Encodes the time of a decision.
pub(super) fn clock(now: Option<Timestamp>) -> Value {
    now.map_or(SERVERS_CLOCK, |now| integer(now.as_micros()))
}

/// Encodes a number. All of them are below 2⁵³.
pub(super) const fn integer(number: u64) -> Value {
    Value::Integer(number.cast_signed())
}

impl From<Argument> for Value {
    fn from(argument: Argument) -> Self {
        match argument {
            Argument::Number(number) => Self::Integer(number),
            Argument::Text(text) => Self::from_static_str(text),
        }
    }
}

impl Replied for Value {
    fn is_missing(&self) -> bool {
        self.is_null()
    }

    fn signed(&self) -> Option<i64> {
        match self {
            Self::Integer(number) => Some(*number),
            _ => None,
        }
    }

    fn list(&self) -> Option<&[Self]> {
        match self {
            Self::Array(values) => Some(values),
            _ => None,
        }
    }

    fn bytes(&self) -> Option<&[u8]> {
        self.as_bytes()
    }
}
