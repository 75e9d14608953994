//! Access logs: lines in one of several formats, from files or standard input, plain or by gzip, in the order of their times.
//!
//! | file | does |
//! |---|---|
//! | `source` | opens files, and decompresses them |
//! | `lines` | splits them into lines of bounded length |
//! | `common_format`, `json_format`, `instant` | the formats |
//! | `unreadable` | counts the lines that cannot be read |
//! | `ordered` | brings the requests of all files into the order of their times |

mod common_format;
mod instant;
mod json_format;
mod lines;
mod ordered;
mod record;
mod source;
mod unreadable;

pub(crate) use self::{
    ordered::{Log, LogEnd},
    record::{Record, Wanted},
    source::SourceError,
};
