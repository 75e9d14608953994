//! Messages: suggestions for misspelt words, and the `Debug` form of public errors, which is their message, so that `main` and
//! `unwrap` print what to change.

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

/// Suggests a similar word or, if there is none, lists the known ones.
pub(crate) fn did_you_mean(word: &str, known: &[&str]) -> String {
    const SHOWN: usize = 24;
    match nearest(word, known) {
        Some(near) => format!("did you mean `{near}`?"),
        None if known.is_empty() => "none are known".into(),
        None => {
            let more = if known.len() > SHOWN { ", …" } else { "" };
            let shown = &known[..known.len().min(SHOWN)];
            format!("known are {}{more}", shown.join(", "))
        }
    }
}

/// Returns the known word that was probably meant.
pub(crate) fn nearest<'a>(word: &str, known: &[&'a str]) -> Option<&'a str> {
    let lower = word.to_ascii_lowercase();
    let distance = |known: &str| strsim::damerau_levenshtein(&known.to_ascii_lowercase(), &lower);
    // Very long words are skipped: only words of a similar length can be similar.
    let similar = known.iter().filter(|known| word.len() <= 2 * known.len());
    let (distance, near) = similar.map(|known| (distance(known), *known)).min()?;
    (distance <= near.len() / 2).then_some(near)
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
