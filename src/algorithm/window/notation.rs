//! Windows in one line, as `5 in any 15m`, and in files.

use std::fmt;

use super::Window;
use crate::algorithm::{
    LimitError,
    duration::format_duration,
    notation::{
        FieldReader, Form, Notation, WrittenFields, after_word, form, instead, number, period,
    },
};

impl Notation for Window {
    const FORM: Form = Form {
        fields: &["limit", "window"],
        words: "limit and window",
        options: &[],
    };

    fn parse(line: &str) -> Option<Result<Self, LimitError>> {
        let (limit, rest) = number(line).ok()?;
        Some(window(limit, after_word(rest, "in")?))
    }

    fn read<F: FieldReader>(fields: &F) -> Option<Self> {
        let (limit, window) = (fields.whole("limit"), fields.duration("window"));
        fields.require(&["limit", "window"]);
        fields.checked(Self::new(limit?, window?))
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
fn window(limit: u32, text: &str) -> Result<Window, LimitError> {
    let Some(window) = after_word(text, "any") else {
        let is_window = period("window", text).is_ok();
        return Err(match is_window {
            true => instead(format_args!("{limit} in any {text}")),
            false => form(),
        });
    };
    Window::new(limit, period("window", window)?)
}
