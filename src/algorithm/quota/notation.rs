//! Quotas in files and lines: `{quota: 1000, per: day}` is `1000 per calendar day`.

use super::{CalendarUnit, Per, Quota, UtcOffset};
use crate::{
    algorithm::{
        FieldReader, LimitError, Notation, WrittenFields, format_duration,
        notation::{Form, duration},
    },
    id::shortened,
    spelling::nearest,
};

impl Notation for Quota {
    const FORM: Form = Form {
        fields: &["quota", "per", "utc_offset"],
        words: "quota and per",
        options: &[],
        lines: &[
            "{quota} per calendar {per}[ at {utc_offset}]",
            "{quota} per {per} from first use",
        ],
        short: &[],
    };

    fn read<F: FieldReader>(fields: &F) -> Option<Self> {
        let (quota, per) = (fields.whole("quota"), fields.parsed("per", per));
        let offset = fields.parsed("utc_offset", str::parse);
        fields.require(&["quota", "per"]);
        let per = match offset {
            Some(offset) => fields.checked(per?.moved(offset))?,
            None => per?,
        };
        fields.checked(Self::new(quota?, per))
    }

    fn values(&self) -> WrittenFields {
        let length = self.per.first_use_length().map(format_duration);
        let (line, per, offset) = match self.per.calendar_unit() {
            Some((unit, offset)) => (0, unit.to_string(), offset),
            None => (1, length.unwrap_or_default(), UtcOffset::UTC),
        };
        let offset = Some(offset).filter(|offset| *offset != UtcOffset::UTC);
        WrittenFields::of(Self::FORM.lines[line])
            .number("quota", self.quota)
            .text("per", per)
            .text("utc_offset", offset.map(|offset| offset.to_string()))
    }
}

/// Reads a unit of the calendar or, from first use, a duration.
fn per(text: &str) -> Result<Per, LimitError> {
    if let Some(unit) = CalendarUnit::named(text) {
        return Ok(Per::calendar(unit));
    }
    if text.starts_with(|first: char| first.is_ascii_digit() || first == '.') {
        return Ok(Per::checked(duration("per", text)?)?);
    }
    let hint = match nearest(text, &CalendarUnit::ALL.map(CalendarUnit::word)) {
        Some(near) => format!("did you mean `{near}`?"),
        None => "write `hour`, `day`, `week` or `month`, or a duration such as `24h`, which starts with the first request"
            .to_owned(),
    };
    let message = format!("per is `{}`: {hint}", shortened(text));
    Err(LimitError::value("per", message))
}
