//! Limits in one line, such as `5 in any 15m`: the fields of a file, in words.
//!
//! A template names the fields between the words, as in `{limit} in any {window}`. Its first field is a number, and all fields
//! are single words. Parts in brackets at its end can be left out; one without braces is the name of a flag. A template for a
//! list of maps ends in [`THEN`].

use std::{cell::Cell, fmt, time::Duration};

use super::{
    Algorithm, AlgorithmKey, LimitError,
    notation::{FieldReader, FieldValue, Form, MapForm, WrittenFields, duration},
};

const THEN: &str = ", then …";

const SEPARATOR: &str = ", then ";

/// The words for periods. All other periods are durations, such as `15m`.
const PERIODS: [(&[&str], u64); 4] = [
    (&["s", "sec", "second"], 1),
    (&["m", "min", "minute"], 60),
    (&["h", "hour"], 60 * 60),
    (&["d", "day"], 24 * 60 * 60),
];

const FORMS: &str = "write it as `10/s burst 20`, `5 per 15m`, `5 in any 15m`, `1000 per calendar day` or `4 at once`";

impl Algorithm {
    /// Reads a limit in one line.
    pub(crate) fn parse(line: &str) -> Result<Self, LimitError> {
        let line = line.replace('/', " per ");
        let line = line.split_whitespace().collect::<Vec<_>>().join(" ");
        // From the longest form to the shortest.
        let mut forms = AlgorithmKey::FORMS.into_iter().rev();
        let read = forms.find_map(|(key, Form { lines, short, .. })| {
            let mut templates = lines.iter().chain(*short);
            templates.find_map(|template| {
                let mistake = Cell::new(None);
                let fields = LineFields::take(template, &line, &mistake)?;
                // Two lines can have the same fields: `10 per calendar 24h` has those of another one.
                let is_meant = |read: &Self| {
                    short.contains(template) || read.parameters().values().line == *template
                };
                let read = key.read(&fields).filter(is_meant);
                Some(mistake.take().map_or_else(|| read.ok_or_else(no_form), Err))
            })
        });
        read.unwrap_or_else(|| Err(no_form()))
    }
}

fn no_form() -> LimitError {
    LimitError::text(FORMS)
}

/// The fields in a line.
#[derive(Clone)]
struct LineFields<'a> {
    fields: Vec<(&'static str, &'a str)>,
    maps: Vec<Self>,
    mistake: &'a Cell<Option<LimitError>>,
}

impl<'a> LineFields<'a> {
    /// Takes a line apart. Returns `None` if it is not of the template's form.
    fn take(
        template: &'static str,
        line: &'a str,
        mistake: &'a Cell<Option<LimitError>>,
    ) -> Option<Self> {
        let (mut fields, mut maps) = (Vec::new(), Vec::new());
        match template.strip_suffix(THEN) {
            Some(template) => {
                let parts = line.split(SEPARATOR);
                let taken = parts.map(|part| Self::take(template, part, mistake));
                maps = taken.collect::<Option<_>>()?;
            }
            None => {
                let (required, options) = template.split_once('[').unwrap_or((template, ""));
                let rest = take_options(options, line, &mut fields);
                take_required(required, rest, &mut fields)?;
            }
        }
        Some(Self {
            fields,
            maps,
            mistake,
        })
    }
}

/// Takes optional fields off the end of a line, and returns what is before them.
fn take_options<'a>(
    options: &'static str,
    mut line: &'a str,
    fields: &mut Vec<(&'static str, &'a str)>,
) -> &'a str {
    let options = options.trim_end_matches(']').rsplit("][");
    for option in options.filter(|option| !option.is_empty()) {
        let taken = match option.trim_end_matches('}').split_once('{') {
            Some((words, field)) => {
                let taken = line.rsplit_once(words);
                taken.map(|(before, value)| (before, field, value))
            }
            None => {
                let before = line.strip_suffix(option);
                before.map(|before| (before, flag(option), "true"))
            }
        };
        if let Some((before, field, value)) = taken {
            fields.push((field, value));
            line = before;
        }
    }
    line
}

fn take_required<'a>(
    template: &'static str,
    mut line: &'a str,
    fields: &mut Vec<(&'static str, &'a str)>,
) -> Option<()> {
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    for (nth, part) in template.split('{').skip(1).enumerate() {
        let (field, words) = part.split_once('}')?;
        let (value, rest) = match words {
            "" => (line, ""),
            words => line.split_once(words)?,
        };
        if value.is_empty() || value.contains(' ') || nth == 0 && !is_number(value) {
            return None;
        }
        fields.push((field, value));
        line = rest;
    }
    line.is_empty().then_some(())
}

/// Returns the flag in `, skippable`.
fn flag(option: &str) -> &str {
    option.trim_start_matches(", ")
}

impl FieldReader for LineFields<'_> {
    fn text(&self, field: &'static str) -> Option<&str> {
        let found = self.fields.iter().find(|(name, _)| *name == field);
        found.map(|(_, text)| *text)
    }

    fn list(&self, _: &'static str, _: &'static MapForm) -> Option<Vec<Self>> {
        Some(self.maps.clone())
    }

    /// A line of the right form has them all.
    fn require(&self, _: &[&'static str]) {}

    fn mistaken(&self, mistake: LimitError) {
        let first = self.mistake.take();
        self.mistake.set(Some(first.unwrap_or(mistake)));
    }

    /// Reads a duration or, unlike in a file, a word for one.
    fn duration(&self, field: &'static str) -> Option<Duration> {
        self.parsed(field, |text| {
            let known = PERIODS.iter().find(|(words, _)| words.contains(&text));
            match (known, text) {
                (Some((_, secs)), _) => Ok(Duration::from_secs(*secs)),
                (None, "week" | "month") => {
                    Err(LimitError::text(format!("write `per calendar {text}`")))
                }
                _ => duration(field, text),
            }
        })
    }
}

/// Writes the fields in one line.
impl fmt::Display for WrittenFields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(template) = self.line.strip_suffix(THEN) else {
            return self.write(self.line, f);
        };
        for (i, map) in self.maps_in().enumerate() {
            f.write_str(if i > 0 { SEPARATOR } else { "" })?;
            map.write(template, f)?;
        }
        Ok(())
    }
}

impl WrittenFields {
    fn write(&self, template: &'static str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (required, options) = template.split_once('[').unwrap_or((template, ""));
        let is_set = |option: &&str| {
            let field = option.trim_end_matches('}').split_once('{');
            let field = field.map_or_else(|| flag(option), |(_, field)| field);
            // A time of zero is like none.
            self.get(field)
                .is_some_and(|value| value.to_string() != "0s")
        };
        let options = options.trim_end_matches(']').split("][");
        for part in [required].into_iter().chain(options.filter(is_set)) {
            for (i, part) in part.split('{').enumerate() {
                let (field, words) = part.split_once('}').unwrap_or(("", part));
                if i > 0 {
                    self.get(field)
                        .map_or(Ok(()), |value| write!(f, "{value}"))?;
                }
                f.write_str(words)?;
            }
        }
        Ok(())
    }
}

impl fmt::Display for FieldValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => number.fmt(f),
            Self::Text(text) => f.write_str(text),
            Self::True => f.write_str("true"),
            Self::Maps(_) => Ok(()),
        }
    }
}
