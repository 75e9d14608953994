//! Windows in one line, as `5 in any 15m`, and in files.

use std::fmt;

use super::window::Window;
use crate::algorithm::{
    duration::format_duration,
    limit_error::NotationError,
    line::{after_word, number, period},
    notation::{FieldReader, Notation, WrittenFields},
};

impl Notation for Window {
    const FIELDS: &'static [&'static str] = &["limit", "window"];

    const WORDS: &'static str = "limit and window";

    fn parse(line: &str) -> Option<Result<Self, NotationError>> {
        let (limit, rest) = number(line).ok()?;
        Some(window(limit, after_word(rest, "in")?))
    }

    fn read<F: FieldReader>(fields: &F) -> Result<Self, F::Error> {
        let limit = fields.whole("limit")?;
        let window = fields.duration("window")?;
        let limit = limit.ok_or_else(|| fields.missing("limit"))?;
        let window = window.ok_or_else(|| fields.missing("window"))?;
        Self::checked(limit, window).map_err(|error| fields.mistaken(error.into()))
    }

    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let window = format_duration(self.window());
        write!(f, "{} in any {window}", self.limit())
    }

    fn values(&self) -> WrittenFields {
        WrittenFields::default()
            .number("limit", self.limit())
            .text("window", format_duration(self.window()))
    }
}

/// Reads `any 15m`.
fn window(limit: u32, text: &str) -> Result<Window, NotationError> {
    let Some(window) = after_word(text, "any") else {
        let is_window = period("window", text).is_ok();
        let any = NotationError::Instead(format!("{limit} in any {text}"));
        return Err(if is_window { any } else { NotationError::Form });
    };
    Ok(Window::checked(limit, period("window", window)?)?)
}
