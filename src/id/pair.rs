//! `regId:domain` and `regId:fqdnSet`: the number of an account, and a domain or a set of names.

use super::{
    canonical_id::{CanonicalId, IdProblem},
    id::Id,
    reg_id,
};

const FORM: IdProblem = IdProblem::Form(
    "use an account's number, a colon, and a name or names: `12345678:example.com`",
);

pub(super) fn fold(
    text: &str,
    second: fn(&str) -> Result<CanonicalId<'_>, IdProblem>,
) -> Result<CanonicalId<'_>, IdProblem> {
    let (number, written) = text.split_once(':').ok_or(FORM)?;
    let (number, folded) = (reg_id::fold(number)?, second(written)?);
    if folded.as_str() == written {
        return Ok(CanonicalId::same(text));
    }
    let id = Id::display(format_args!("{number}:{folded}"));
    Ok(CanonicalId::canonical(text, id).wider(folded.is_wider()))
}

#[cfg(all(test, feature = "domains"))]
mod tests {
    use crate::id::IdFormat::{RegIdDomain, RegIdFqdnSet};

    #[test]
    fn what_is_no_pair_is_refused() {
        for text in [
            "",
            ":",
            "12345678",
            "12345678:",
            ":example.com",
            "07:example.com",
            "7:com",
            "7:8:a.com",
            "a:b.com",
        ] {
            assert!(RegIdDomain.fold(text).is_err(), "{text:?}");
            assert!(RegIdFqdnSet.fold(text).is_err(), "{text:?}");
        }
    }
}
