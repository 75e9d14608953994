/// The problem with a value. [`LimitError::kind`](crate::limit::LimitError::kind) returns it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LimitErrorKind {
    /// It is 0, or empty.
    Zero,
    /// It is a duration with a fraction of a microsecond.
    TooFine,
    /// It leads to a time above 2⁵¹ µs (71 years).
    TooLong,
    /// It is more than a bucket can remember.
    TooMany,
    /// It is a text that stands for no such value.
    Unreadable,
}
