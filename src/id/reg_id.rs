//! `regId`: the number of an account.

use super::canonical_id::{CanonicalId, IdProblem};

const FORM: IdProblem =
    IdProblem::Form("use a whole number up to 18446744073709551615, without sign or leading zeros");

pub(super) fn fold(text: &str) -> Result<CanonicalId<'_>, IdProblem> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    let canonical = digits && (text == "0" || !text.starts_with('0'));
    match text.parse::<u64>() {
        Ok(_) if canonical => Ok(CanonicalId::same(text)),
        _ => Err(FORM),
    }
}

#[cfg(test)]
mod tests {
    use crate::id::IdFormat::RegId;

    #[test]
    fn numbers_are_as_they_are_written() {
        for text in ["0", "7", "12345678", "18446744073709551615"] {
            assert_eq!(RegId.canonical(text).unwrap().as_str(), text);
        }
        for text in [
            "",
            "0012",
            "012",
            "07",
            "00",
            "+5",
            "-1",
            "1.0",
            "1e5",
            "12 ",
            "0x10",
            "18446744073709551616",
            "١٢",
            "12345678901234567890123",
            "abc",
            "1_000",
        ] {
            assert!(RegId.fold(text).is_err(), "{text:?}");
        }
    }
}
