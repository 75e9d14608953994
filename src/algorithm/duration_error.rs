use thiserror::Error;

/// A text that is not a duration.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("`{text}` is not a duration: {kind}")]
pub(crate) struct DurationError {
    pub(super) text: String,
    pub(super) kind: ErrorKind,
}

/// The problem with it.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(super) enum ErrorKind {
    #[error("write numbers with units, such as `1s`, `180m`, `1h30m` or `1.5h`")]
    Syntax,
    #[error("add a unit, one of ns, us, ms, s, m, h")]
    NoUnit,
    #[error("units are ns, us, ms, s, m and h")]
    Unit,
    #[error("the longest unit is the hour: write `{0}`")]
    Days(String),
    #[error("it is too long: shorten it")]
    TooLong,
    #[error("it has a fraction of a nanosecond: round it")]
    TooFine,
}
