//! The `Debug` form of public errors: their message, so that `main` and `unwrap` print what to change.

use std::{error::Error, fmt};

/// Implements `Debug` for errors with their message.
macro_rules! debug_is_message {
    ($($error:ty),+) => {$(
        impl std::fmt::Debug for $error {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                $crate::message::write(self, f)
            }
        }
    )+};
}

pub(crate) use debug_is_message;

/// Writes the message of an error, and of each of its sources that the message does not contain.
pub(crate) fn write(error: &dyn Error, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        source = cause.source();
    }
    f.write_str(&text)
}

#[cfg(test)]
mod tests {
    use std::error::Error;

    use crate::{
        Limit, Limits,
        backend::BackendError,
        key::{Proxies, ProxyHeader},
    };

    #[test]
    fn debug_of_an_error_is_its_message() {
        let errors: [Box<dyn Error>; 3] = [
            Box::new(
                Limits::builder()
                    .defaults_file("no-such-file.json")
                    .build()
                    .expect_err("there is no such file"),
            ),
            Box::new("0/s".parse::<Limit>().expect_err("nothing would pass")),
            Box::new(
                Proxies::trusted(["no range"], ProxyHeader::XForwardedFor)
                    .expect_err("an entry is no range"),
            ),
        ];
        for error in errors {
            assert_eq!(format!("{error:?}"), error.to_string());
        }
    }

    #[test]
    fn debug_of_an_error_has_each_cause_once() {
        let error = BackendError::unavailable("the disk is full");
        let message = "the rate limit store is unavailable: the disk is full";
        assert_eq!(format!("{error:?}"), message);
    }
}
