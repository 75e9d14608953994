use std::{
    ops::{Deref, DerefMut},
    slice,
};

use smallvec::SmallVec;

use super::answer::Answer;

/// The answers to a batch, in the order of its members.
#[derive(Clone, Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "most batches have one answer, which moves without the room for others"
)]
pub(super) enum Answers {
    One(Answer),
    Several(SmallVec<[Answer; 4]>),
}

impl Deref for Answers {
    type Target = [Answer];

    #[inline(always)]
    fn deref(&self) -> &[Answer] {
        match self {
            Self::One(answer) => slice::from_ref(answer),
            Self::Several(answers) => answers,
        }
    }
}

impl DerefMut for Answers {
    fn deref_mut(&mut self) -> &mut [Answer] {
        match self {
            Self::One(answer) => slice::from_mut(answer),
            Self::Several(answers) => answers,
        }
    }
}

impl FromIterator<Answer> for Answers {
    fn from_iter<I: IntoIterator<Item = Answer>>(answers: I) -> Self {
        Self::Several(answers.into_iter().collect())
    }
}
