//! Charges of buckets in rows: all of them, or none.

use std::sync::MutexGuard;

use super::{
    MemoryBackend,
    table::{BucketSlot, Table},
};
use crate::{
    algorithm::{Algorithm, Ask, RowValue},
    clock::Timestamp,
    few::Count,
    transaction::Fingerprint,
};

/// The charge of a bucket in a row, and what comes of it.
#[derive(Clone, Copy)]
pub(crate) struct RowCharge<'a> {
    pub(crate) print: Fingerprint,
    /// Without one, nothing fits.
    pub(crate) algorithm: Option<&'a Algorithm>,
    /// In tokens or units, not 0.
    pub(crate) cost: u32,
    pub(crate) joins_line: bool,
    /// The value of the row afterwards.
    pub(crate) value: RowValue,
    /// Whether the cost fits into this bucket.
    pub(crate) fits: bool,
}

impl<'a> RowCharge<'a> {
    /// A charge that is not known yet.
    pub(crate) const UNKNOWN: Self = Self {
        print: Fingerprint { low: 0, high: 0 },
        algorithm: None,
        cost: 0,
        joins_line: false,
        value: RowValue::FULL,
        fits: false,
    };

    #[inline(always)]
    pub(crate) const fn new(print: Fingerprint, algorithm: &'a Algorithm, cost: u32) -> Self {
        Self {
            print,
            algorithm: Some(algorithm),
            cost,
            ..Self::UNKNOWN
        }
    }

    /// Judges the charge of a bucket with this value. Returns the value after it, if it fits.
    #[inline(always)]
    fn judge(&mut self, value: RowValue, now: Timestamp) -> Option<RowValue> {
        let ask = Ask::spend(self.cost, self.joins_line);
        let charged = self.algorithm?.charge_row(&ask, value, now);
        (self.value, self.fits) = (value, charged.is_some());
        charged
    }
}

/// A bucket that was looked up: its shard among the locked ones, its place, and its value if all charges fit.
#[derive(Clone, Copy)]
struct Charged {
    shard: usize,
    slot: Option<BucketSlot>,
    value: RowValue,
}

impl Charged {
    const NOTHING: Self = Self {
        shard: 0,
        slot: None,
        value: RowValue::FULL,
    };
}

impl MemoryBackend {
    /// Makes all charges if each of them fits, and returns whether they do. No two of them are of one bucket.
    #[inline(always)]
    pub(crate) fn charge_rows<C: Count>(
        &self,
        charges: &mut C::Of<RowCharge<'_>>,
        now: Timestamp,
    ) -> bool {
        match charges.as_mut() {
            [charge] => {
                let RowCharge {
                    print,
                    algorithm,
                    cost,
                    joins_line,
                    ..
                } = *charge;
                let ask = (cost, joins_line);
                (charge.value, charge.fits) = self.charge_row(&print, algorithm, ask, now);
                charge.fits
            }
            _ => self.charge_several::<C>(charges, now),
        }
    }

    /// Makes one charge, if it fits. Returns the value of the row afterwards, and whether the charge fits. It takes the parts
    /// of the charge, which the compiler keeps in registers.
    #[inline(never)]
    fn charge_row(
        &self,
        print: &Fingerprint,
        algorithm: Option<&Algorithm>,
        (cost, joins_line): (u32, bool),
        now: Timestamp,
    ) -> (RowValue, bool) {
        let mut rows = self.rows.lock(self.rows.of(print));
        let (value, slot) = rows.look(print);
        let ask = Ask::spend(cost, joins_line);
        match algorithm.and_then(|algorithm| algorithm.charge_row(&ask, value, now)) {
            Some(charged) => {
                rows.put(slot, print, charged, now);
                (charged, true)
            }
            None => (value, false),
        }
    }

    #[inline(never)]
    fn charge_several<C: Count>(&self, charges: &mut C::Of<RowCharge<'_>>, now: Timestamp) -> bool {
        let charges = charges.as_mut();
        let mut locked = C::list(charges.len(), |_| None);
        let mut judged = C::fill(charges.len(), Charged::NOTHING);
        let (locked, judged) = (locked.as_mut(), judged.as_mut());
        self.lock_rows::<C>(charges, locked, judged);
        let mut fit = true;
        for (charge, judged) in charges.iter_mut().zip(&mut *judged) {
            let Some(rows) = &locked[judged.shard] else {
                return false;
            };
            let (value, slot) = rows.look(&charge.print);
            judged.slot = slot;
            match charge.judge(value, now) {
                Some(value) => judged.value = value,
                None => fit = false,
            }
        }
        // A denial writes nothing, and an attack is mostly denials.
        if fit {
            for (charge, judged) in charges.iter_mut().zip(&*judged) {
                if let Some(rows) = &mut locked[judged.shard] {
                    charge.value = judged.value;
                    rows.put(judged.slot, &charge.print, judged.value, now);
                }
            }
        }
        fit
    }

    /// Locks the shards of all charges, lower ones first, so that no two batches wait for each other.
    #[inline(always)]
    fn lock_rows<'b, C: Count>(
        &'b self,
        charges: &[RowCharge<'_>],
        locked: &mut [Option<MutexGuard<'b, Table>>],
        judged: &mut [Charged],
    ) {
        let mut order = C::fill(charges.len(), (0, 0));
        let order = order.as_mut();
        for ((place, charge), turn) in charges.iter().enumerate().zip(&mut *order) {
            *turn = (self.rows.of(&charge.print), place);
        }
        super::batch::sort(order);
        let mut held = None;
        for (turn, (shard, place)) in order.iter().copied().enumerate() {
            let turn = match held {
                Some((last, turn)) if last == shard => turn,
                _ => {
                    locked[turn] = Some(self.rows.lock(shard));
                    held = Some((shard, turn));
                    turn
                }
            };
            judged[place].shard = turn;
        }
    }
}
