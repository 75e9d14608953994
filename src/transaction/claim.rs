use super::{
    batch::{Batch, Member, Operation},
    fingerprint::Fingerprint,
};
use crate::{
    algorithm::{Action, Algorithm, Ask, RowValue},
    clock::Timestamp,
};

/// All that a decision on a bucket depends on, apart from its state. A [`Member`] also has what stores elsewhere need.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Claim<'a> {
    pub(crate) fingerprint: Fingerprint,
    pub(crate) algorithm: &'a Algorithm,
    pub(crate) ask: Ask<'a>,
    pub(crate) votes: bool,
    /// Whether it has lost its vote to shadow mode.
    pub(crate) shadow: bool,
}

/// The most common claim: a charge, with a vote, of a bucket that fits into a row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RowCharge<'a> {
    pub(crate) fingerprint: Fingerprint,
    /// Without one, nothing fits.
    pub(crate) algorithm: Option<&'a Algorithm>,
    /// In tokens or units.
    pub(crate) cost: u32,
    pub(crate) joins_line: bool,
}

impl<'a> RowCharge<'a> {
    /// A charge that is not known yet.
    pub(crate) const NONE: Self = Self {
        fingerprint: Fingerprint { low: 0, high: 0 },
        algorithm: None,
        cost: 0,
        joins_line: false,
    };

    /// Returns the value of its row afterwards, if it fits.
    #[inline(always)]
    pub(crate) fn charged(&self, value: RowValue, now: Timestamp) -> Option<RowValue> {
        self.algorithm?
            .charge_row(self.cost, self.joins_line, value, now)
    }
}

impl Operation {
    /// Returns what a member of a batch asks of its bucket.
    #[inline(always)]
    pub(crate) fn claim<'a>(self, member: &Member<'a>) -> Claim<'a> {
        Claim {
            fingerprint: member.fingerprint,
            algorithm: member.algorithm,
            ask: self.ask(member),
            votes: member.mode.votes(),
            shadow: member.shadow,
        }
    }
}

impl<'a> Batch<'a> {
    /// Returns what a member asks of its bucket.
    #[inline(always)]
    pub(crate) fn claim(&self, member: &Member<'a>) -> Claim<'a> {
        self.operation.claim(member)
    }

    /// Returns the same, if it is a charge of a row.
    #[inline(always)]
    pub(crate) fn row_charge(&self, member: &Member<'a>) -> Option<RowCharge<'a>> {
        let is_charge = self.action(member) == Action::Spend && member.mode.votes();
        (is_charge && member.algorithm.fits_row()).then(|| RowCharge {
            fingerprint: member.fingerprint,
            algorithm: Some(member.algorithm),
            cost: member.cost,
            joins_line: member.joins_line(),
        })
    }
}
