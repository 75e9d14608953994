use std::{cell::RefCell, error, fmt, io, path::Path, sync::Arc};

use crate::{id::shortened, message::debug_is_message};

/// The error for limits that cannot be used. It contains all mistakes, each with the file and line if they are known, the limit,
/// the id, and what to change. The [guide](crate::guide::limits_in_files#mistakes) has examples.
///
/// ```
/// use tollgate::Limits;
///
/// # #[cfg(feature = "yaml")] {
/// let file = "uploads:\n  burst: 5\n  count: 5\n  perod: 15m\nlogins: 5 per fortnight\n";
/// let error = Limits::builder().defaults_text("defaults.yml", file).build().expect_err("it has two mistakes");
/// let mistakes: Vec<_> = error.mistakes().map(|mistake| mistake.to_string()).collect();
/// assert_eq!(mistakes[0], "defaults.yml:4: limit `uploads`: unknown field `perod`: did you mean `period`?");
/// assert!(mistakes[1].starts_with("defaults.yml:5: limit `logins`: `5 per fortnight` is not a limit"));
/// # }
/// ```
#[derive(Clone)]
pub struct LimitsError(Arc<[Mistake]>);

debug_is_message!(LimitsError);

#[derive(Clone)]
struct Mistake {
    location: Location,
    limit: Option<Box<str>>,
    id: Option<Box<str>>,
    message: String,
    cause: Option<Arc<io::Error>>,
}

/// The location of a mistake: its file and its line. A mistake in code has neither.
#[derive(Clone, Debug, Default)]
pub(crate) struct Location {
    pub(crate) file: Option<Arc<Path>>,
    line: Option<u64>,
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.file {
            Some(file) => file.display().fmt(f)?,
            None => f.write_str("the code")?,
        }
        self.line.map_or(Ok(()), |line| write!(f, ":{line}"))
    }
}

impl LimitsError {
    /// Returns each mistake as an error of its own: first those of defaults, then those of overrides, file by file and from top to
    /// bottom. There are at most a thousand.
    #[must_use]
    pub fn mistakes(&self) -> impl ExactSizeIterator<Item = Self> {
        self.0.iter().map(|mistake| Self([mistake.clone()].into()))
    }

    /// The file of the first mistake or the name of its text, or `None` if it is in code.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        self.0[0].location.file.as_deref()
    }

    /// The line of the first mistake in its file or text, counted from 1.
    #[must_use]
    pub fn line(&self) -> Option<u64> {
        self.0[0].location.line
    }

    /// The name of the limit with the first mistake.
    #[must_use]
    pub fn limit(&self) -> Option<&str> {
        self.0[0].limit.as_deref()
    }

    /// The id, if the first mistake is in an override.
    #[must_use]
    pub fn id(&self) -> Option<&str> {
        self.0[0].id.as_deref()
    }

    /// Writes the mistakes for events. If ids are redacted, that is only the location of the first one, if its text can quote an id.
    #[cfg(feature = "reload")]
    pub(crate) fn in_events(&self, redacts_ids: bool) -> String {
        const HIDDEN: &str = "not shown, because ids are redacted (`Reloader::reload` returns it)";
        let first = &self.0[0];
        match (first.location.line, &first.limit) {
            (Some(_), _) if redacts_ids => format!("{}: {HIDDEN}", first.location),
            (None, Some(limit)) if redacts_ids && first.id.is_some() => {
                format!("an override of limit `{limit}`: {HIDDEN}")
            }
            _ => self.to_string(),
        }
    }

    /// Creates the error for a limit that does not fit the rest of the program.
    pub(crate) fn of_limit(limit: &str, message: impl Into<String>) -> Self {
        let mistakes = Mistakes::default();
        let report = Reporter::new(&mistakes, None).of_limit(limit);
        Self([report.mistake(message)].into())
    }

    /// Names the id, if there is one.
    pub(crate) fn of_id(self, id: Option<&str>) -> Self {
        let mut mistake = self.0[0].clone();
        mistake.id = id.map(Into::into);
        Self([mistake].into())
    }
}

/// Writes each mistake in a line of its own.
impl fmt::Display for LimitsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, mistake) in self.0.iter().enumerate() {
            f.write_str(if i > 0 { "\n" } else { "" })?;
            mistake.fmt(f)?;
        }
        Ok(())
    }
}

impl error::Error for LimitsError {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        let mut causes = self.0.iter().filter_map(|mistake| mistake.cause.as_deref());
        causes.next().map(|cause| cause as _)
    }
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.location.file.is_some() {
            write!(f, "{}: ", self.location)?;
        }
        if let Some(limit) = &self.limit {
            write!(f, "limit `{}`: ", shortened(limit))?;
        }
        let id = self.id.as_deref().map(|id| format!("`{}`", shortened(id)));
        // A message about the id itself begins with the id already.
        if let Some(id) = id.filter(|id| !self.message.starts_with(id)) {
            write!(f, "id {id}: ")?;
        }
        f.write_str(&self.message)
    }
}

/// The mistakes found so far.
#[derive(Default)]
pub(crate) struct Mistakes(RefCell<Vec<Mistake>>);

impl Mistakes {
    /// The most mistakes that are recorded. Further ones would only fill a log.
    const MOST: usize = 1000;

    /// Returns the built value, unless there are mistakes.
    pub(crate) fn or<T>(self, built: T) -> Result<T, LimitsError> {
        match self.0.into_inner() {
            mistakes if mistakes.is_empty() => Ok(built),
            mistakes => Err(LimitsError(mistakes.into())),
        }
    }
}

/// Records mistakes that share a line of a file (or none, for code), a limit and an id.
#[derive(Clone, Copy)]
pub(crate) struct Reporter<'a> {
    mistakes: &'a Mistakes,
    file: Option<&'a Arc<Path>>,
    /// 0 if it is not known.
    pub(crate) line: u64,
    pub(crate) limit: Option<&'a str>,
    id: Option<&'a str>,
}

impl<'a> Reporter<'a> {
    /// Records mistakes in a file, or in code.
    pub(crate) fn new(mistakes: &'a Mistakes, file: Option<&'a Arc<Path>>) -> Self {
        Self {
            mistakes,
            file,
            line: 0,
            limit: None,
            id: None,
        }
    }

    pub(crate) fn at(mut self, line: u64) -> Self {
        self.line = line;
        self
    }

    pub(crate) fn of_limit(mut self, limit: &'a str) -> Self {
        self.limit = Some(limit);
        self
    }

    pub(crate) fn of_id(mut self, id: &'a str) -> Self {
        self.id = Some(id);
        self
    }

    pub(crate) fn location(self) -> Location {
        let file = self.file.cloned();
        let line = Some(self.line).filter(|line| *line > 0 && file.is_some());
        Location { file, line }
    }

    pub(crate) fn mistaken(self, message: impl Into<String>) {
        self.add(self.mistake(message));
    }

    /// Records that the file cannot be read.
    pub(crate) fn unreadable(self, cause: io::Error) {
        let mut mistake = self.mistake(format!("cannot read it: {cause}"));
        mistake.cause = Some(Arc::new(cause));
        self.add(mistake);
    }

    /// Returns the number of mistakes so far.
    pub(crate) fn count(self) -> usize {
        self.mistakes.0.borrow().len()
    }

    fn add(self, mistake: Mistake) {
        if self.count() < Mistakes::MOST {
            self.mistakes.0.borrow_mut().push(mistake);
        }
    }

    fn mistake(self, message: impl Into<String>) -> Mistake {
        let mut message = message.into();
        let mut quoted = [self.limit, self.id].into_iter().flatten();
        let space = odd_space(&message).or_else(|| quoted.find_map(odd_space));
        if let Some(space) = space {
            message += &format!(" (it contains {space}: write a plain space)");
        }
        Mistake {
            location: self.location(),
            limit: self.limit.map(Into::into),
            id: self.id.map(Into::into),
            message,
            cause: None,
        }
    }
}

/// Returns the name of the first character that looks like a plain space or is invisible, but is neither a space nor a visible
/// character.
pub(super) fn odd_space(text: &str) -> Option<String> {
    let is_odd =
        |c: char| !c.is_ascii() && c.is_whitespace() || "\u{200b}\u{2060}\u{feff}".contains(c);
    let space = text.chars().find(|c| is_odd(*c))?;
    let is_no_break = "\u{a0}\u{2007}\u{202f}\u{2060}\u{feff}".contains(space);
    let name = if is_no_break {
        "a no-break space"
    } else {
        "a special space"
    };
    Some(format!("{name}, U+{:04X}", u32::from(space)))
}
