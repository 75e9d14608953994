//! Concurrency limits in one line, as `4 at once`, and in files.

use std::{fmt, time::Duration};

use super::Concurrency;
use crate::algorithm::{
    LimitError,
    duration::format_duration,
    notation::{FieldReader, Form, Notation, WrittenFields, duration, number},
};

/// What precedes the hold in a line.
const HELD: &str = ", held for ";

impl Notation for Concurrency {
    const FORM: Form = Form {
        fields: &["concurrent", "hold"],
        words: "concurrent",
        options: &[],
    };

    fn parse(line: &str) -> Option<Result<Self, LimitError>> {
        let (limit, rest) = number(line).ok()?;
        let rest = rest.strip_prefix("at once")?;
        if let Some(wait) = rest.find(", waiting up to ") {
            let message = format!(
                "permits have no line to wait in: remove `{}`",
                &rest[wait..]
            );
            return Some(Err(LimitError::value("max_wait", message)));
        }
        let hold = match rest {
            "" => None,
            rest => Some(rest.strip_prefix(HELD)?),
        };
        let hold = hold.map_or(Ok(Self::DEFAULT_HOLD), |hold| duration("hold", hold));
        Some(hold.and_then(|hold| of_values(limit, hold)))
    }

    fn read<F: FieldReader>(fields: &F) -> Option<Self> {
        let (limit, hold) = (fields.whole("concurrent"), fields.duration("hold"));
        fields.require(&["concurrent"]);
        fields.checked(of_values(limit?, hold.unwrap_or(Self::DEFAULT_HOLD)))
    }

    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at once", self.limit())?;
        match written_hold(self) {
            Some(hold) => write!(f, "{HELD}{hold}"),
            None => Ok(()),
        }
    }

    fn values(&self) -> WrittenFields {
        WrittenFields::default()
            .number("concurrent", self.limit())
            .text("hold", written_hold(self))
    }
}

fn of_values(limit: u32, hold: Duration) -> Result<Concurrency, LimitError> {
    Concurrency::new(limit)?.with_hold(hold)
}

/// Returns the hold, unless it is the default.
fn written_hold(limit: &Concurrency) -> Option<String> {
    let hold = Some(limit.hold()).filter(|hold| *hold != Concurrency::DEFAULT_HOLD);
    hold.map(format_duration)
}
