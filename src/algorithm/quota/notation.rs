//! Quotas in one line, as `1000 per calendar day`, and in files.

use std::fmt;

use super::{CalendarUnit, Per, Quota, UtcOffset};
use crate::{
    algorithm::{
        LimitError,
        duration::format_duration,
        notation::{
            FieldReader, Form, Notation, WrittenFields, after_per, after_word, duration, number,
        },
    },
    id::shortened,
    spelling::nearest,
};

impl Notation for Quota {
    const FORM: Form = Form {
        fields: &["quota", "per", "utc_offset"],
        words: "quota and per",
        options: &[],
    };

    fn parse(line: &str) -> Option<Result<Self, LimitError>> {
        let (quota, rest) = number(line).ok()?;
        let text = after_per(rest)?;
        let per = match after_word(text, "calendar") {
            Some(unit) => calendar(unit),
            None => first_use("period", text.strip_suffix(" from first use")?.trim_end()),
        };
        Some(per.and_then(|per| Self::new(quota, per)))
    }

    fn read<F: FieldReader>(fields: &F) -> Option<Self> {
        let (quota, per) = (fields.whole("quota"), fields.parsed("per", per));
        let offset = fields.parsed("utc_offset", offset);
        fields.require(&["quota", "per"]);
        let per = match offset {
            Some(offset) => fields.checked(at_offset(per?, offset))?,
            None => per?,
        };
        fields.checked(Self::new(quota?, per))
    }

    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let quota = self.quota();
        match self.per().calendar_unit() {
            Some((unit, UtcOffset::UTC)) => write!(f, "{quota} per calendar {unit}"),
            Some((unit, offset)) => write!(f, "{quota} per calendar {unit} at {offset}"),
            None => write!(f, "{quota} per {} from first use", length(self.per())),
        }
    }

    fn values(&self) -> WrittenFields {
        let (per, offset) = match self.per().calendar_unit() {
            Some((unit, offset)) => (unit.to_string(), offset),
            None => (length(self.per()), UtcOffset::UTC),
        };
        let offset = Some(offset).filter(|offset| *offset != UtcOffset::UTC);
        WrittenFields::default()
            .number("quota", self.quota())
            .text("per", per)
            .text("utc_offset", offset.map(|offset| offset.to_string()))
    }
}

/// Writes the length of a period from first use.
fn length(per: Per) -> String {
    format_duration(per.first_use_length().unwrap_or_default())
}

/// Reads `day` or `day at +02:00`.
fn calendar(text: &str) -> Result<Per, LimitError> {
    const REMEDY: &str =
        "a calendar has `hour`, `day`, `week` and `month`: write `1000 per calendar day`";
    let (unit, offset) = match text.split_once(" at ") {
        Some((unit, offset)) => (unit.trim_end(), Some(offset.trim())),
        None => (text, None),
    };
    let unit = CalendarUnit::named(unit).ok_or_else(|| LimitError::value("per", REMEDY))?;
    Ok(match offset {
        Some(offset) => Per::calendar(unit).at_offset(offset.parse()?),
        None => Per::calendar(unit),
    })
}

/// Reads the length of a period from first use.
fn first_use(field: &'static str, text: &str) -> Result<Per, LimitError> {
    Per::checked_first_use(duration(field, text)?)
}

/// Reads a unit of the calendar or, from first use, a duration.
fn per(text: &str) -> Result<Per, LimitError> {
    if let Some(unit) = CalendarUnit::named(text) {
        return Ok(Per::calendar(unit));
    }
    if text.starts_with(|first: char| first.is_ascii_digit() || first == '.') {
        return first_use("per", text);
    }
    let hint = match nearest(text, &CalendarUnit::ALL.map(CalendarUnit::word)) {
        Some(near) => format!("did you mean `{near}`?"),
        None => "write `hour`, `day`, `week` or `month`, or a duration such as `24h`, which starts with the first request"
            .to_owned(),
    };
    Err(LimitError::value(
        "per",
        format!("per is `{}`: {hint}", shortened(text)),
    ))
}

fn at_offset(per: Per, offset: UtcOffset) -> Result<Per, LimitError> {
    const FROM_FIRST_USE: &str = "utc_offset is for quotas per hour, day, week or month; a period of this length starts \
                                  with the first request: remove it";
    match per.calendar_unit() {
        Some(_) => Ok(per.at_offset(offset)),
        None => Err(LimitError::value("utc_offset", FROM_FIRST_USE)),
    }
}

fn offset(text: &str) -> Result<UtcOffset, LimitError> {
    text.parse().map_err(|error| {
        LimitError::value(
            "utc_offset",
            format!("utc_offset is `{}`: {error}", shortened(text)),
        )
    })
}
