//! GCRA as one of the algorithms.

use std::{convert::Infallible, mem, time::Duration};

use super::{gcra::Gcra, receipt::GcraCharge, row};
use crate::{
    algorithm::{
        action::{Action, Ask, Refund},
        algorithm_key::AlgorithmKey,
        charge::Charge,
        counting::{Counting, Judged, ShownIn, TakenPart},
        refill::Refill,
        row_value::RowValue,
        ticks::{Tat, Ticks, Wait},
    },
    varint::{self, Malformed},
};

/// A charge of all of its tokens, as text.
const WHOLE: u8 = 0x11;
/// One that took less than the time of its tokens. It has two more numbers than other charges.
const PART: u8 = 0x14;

impl Counting for Gcra {
    const KEY: AlgorithmKey = AlgorithmKey::Gcra;
    const KIND: u8 = 1;
    const FITS_ROW: bool = true;
    const CHARGE_KINDS: &'static [u8] = &[WHOLE, PART];

    type Stored = Tat;
    type View<'a> = Tat;
    type State = Tat;
    type Charge = GcraCharge;
    type Terms = Infallible;

    #[inline]
    fn view(&self, stored: Option<&Tat>, _: u64) -> Tat {
        stored.map_or(Tat::default(), |tat| tat.storable())
    }

    fn keep(&self, stored: Option<Tat>, _: Action, state: Tat, now: u64) -> Option<Tat> {
        // A denial writes nothing, even where the stored TAT is not one that decisions lead to.
        match state == self.view(stored.as_ref(), now) {
            true => stored,
            false => Some(state),
        }
    }

    fn lapses_at(&self, tat: &Tat) -> u64 {
        tat.storable().ceil_micros()
    }

    fn write(tat: &Tat, bytes: &mut Vec<u8>) {
        let tat = tat.storable();
        varint::write(bytes, tat.us);
        varint::write(bytes, tat.frac.into());
    }

    fn read(bytes: &mut &[u8]) -> Result<Tat, Malformed> {
        let us = varint::read(bytes)?;
        let frac = varint::read_u32(bytes)?;
        let tat = Tat { us, frac };
        match tat == tat.storable() {
            true => Ok(tat),
            false => Err(Malformed::Impossible("a TAT of 2^53 us or more")),
        }
    }

    #[inline(always)]
    fn view_row(&self, value: RowValue, _: u64) -> Tat {
        row::tat(value)
    }

    #[inline(always)]
    fn row(&self, tat: Tat) -> RowValue {
        row::value(tat, self.scale())
    }

    #[inline(always)]
    fn judge(&self, ask: &Ask<'_>, tat: Tat, now: u64) -> Judged<Tat> {
        let next = match ask.action {
            Action::Probe | Action::Spend => {
                self.spend_within(tat, now, ask.cost, self.line_us(ask.joins_line))
            }
            Action::ProbeDebit | Action::Debit => return self.judge_debit(ask, tat, now),
            Action::Refund => self.judge_refund(ask, tat, now),
            Action::Renew | Action::Keep | Action::Reset => None,
        };
        let after = next.filter(|_| ask.action != Action::Probe);
        Judged::new(after.unwrap_or(tat), next.is_some())
    }

    fn untouched(&self, _: &Ask<'_>, tat: Tat, _: u64) -> Tat {
        tat
    }

    /// A missing bucket is full by any clock.
    fn by_clock(mut tat: Tat, from: u64, to: u64) -> Tat {
        if tat.us > 0 {
            let (later, earlier) = (to.saturating_sub(from), from.saturating_sub(to));
            tat.us = tat.us.saturating_add(later).saturating_sub(earlier);
            tat = tat.storable();
        }
        tat
    }

    #[inline(never)]
    fn probed(&self, ask: &Ask<'_>, tat: Tat, now: u64) -> Tat {
        match ask.action {
            Action::ProbeDebit => self.debit(tat, now, ask.cost),
            _ => self
                .spend_within(tat, now, ask.cost, self.line_us(ask.joins_line))
                .unwrap_or(tat),
        }
    }

    fn with_held(&self, tat: Tat, now: u64, held: u32) -> Tat {
        let tat = self.normal(tat).min(self.horizon(now));
        let rest = self.subtract(tat, self.increment(held));
        rest.max(Ticks::from_micros(now))
    }

    fn charge(shown: &ShownIn<Self>) -> Option<(GcraCharge, u32)> {
        let charge = GcraCharge {
            gcra: shown.by,
            tat: shown.state,
            short: shown.part.map_or(Ticks::default(), |part| part.short()),
        };
        Some((charge, shown.taken()))
    }

    fn remaining(shown: &ShownIn<Self>) -> u32 {
        shown.by.remaining(shown.state, shown.now)
    }

    fn room(shown: &ShownIn<Self>) -> u32 {
        match shown.may_wait {
            true => shown.by.room(shown.state, shown.now).0,
            false => Counting::remaining(shown),
        }
    }

    fn wait(shown: &ShownIn<Self>) -> Wait {
        let line = if shown.may_wait {
            shown.by.max_wait_us()
        } else {
            0
        };
        let wait = shown
            .by
            .wait_for_line(shown.state, shown.now, shown.cost, line);
        shown.by.exact(wait)
    }

    fn reset_after(shown: &ShownIn<Self>) -> Wait {
        shown.by.exact(shown.by.reset_after(shown.state, shown.now))
    }

    fn next_unit(shown: &ShownIn<Self>) -> Option<Wait> {
        let next = shown.by.next_token(shown.state, shown.now);
        next.map(|next| shown.by.exact(next))
    }

    #[inline]
    fn next_room(shown: &ShownIn<Self>) -> (u32, Option<Wait>) {
        let (room, next) = match shown.may_wait {
            true => shown.by.room(shown.state, shown.now),
            false => shown.by.quota(shown.state, shown.now),
        };
        (room, next.map(|next| shown.by.exact(next)))
    }

    fn allowance(shown: &ShownIn<Self>) -> (u32, Duration) {
        if shown.may_wait {
            return (shown.by.most_room(), shown.by.longest().ceil());
        }
        let burst = shown.by.burst();
        (burst, shown.by.increment(burst).ceil())
    }

    fn refill(shown: &ShownIn<Self>) -> Option<Refill> {
        let refill = Refill::Steady {
            count: shown.by.count(),
            period_us: u64::try_from(shown.by.period_us()).ok()?,
        };
        // The figures of a request that has waited are those of its turn.
        (!shown.may_wait).then_some(refill)
    }

    fn delay(shown: &ShownIn<Self>) -> Wait {
        shown.by.exact(shown.by.delay(shown.state, shown.now))
    }

    #[inline]
    fn has_line(&self) -> bool {
        self.max_wait_us() > 0
    }

    fn split(charge: &mut GcraCharge, rest: u32, part: u32) -> GcraCharge {
        let GcraCharge { gcra, tat, short } = charge;
        // The first of the tokens is the one that was not charged as a whole.
        let short_of_part = match rest {
            0 => mem::take(short),
            _ => Ticks::default(),
        };
        let tat_of_part = *tat;
        *tat = gcra.before_part(*tat, part, short_of_part);
        GcraCharge {
            gcra: *gcra,
            tat: tat_of_part,
            short: short_of_part,
        }
    }

    fn charge_numbers(charge: &GcraCharge) -> (u8, Vec<u64>) {
        let GcraCharge { gcra, tat, short } = charge;
        let period_us = u64::try_from(gcra.period().as_micros()).unwrap_or(u64::MAX);
        let [burst, count] = [gcra.burst(), gcra.count()].map(u64::from);
        let mut numbers = vec![burst, count, period_us, tat.us, tat.frac.into()];
        // An older process cannot read the longer form, so almost all receipts have the shorter one.
        if *short == Ticks::default() {
            return (WHOLE, numbers);
        }
        numbers.extend([short.us, short.frac.into()]);
        (PART, numbers)
    }

    fn read_charge(kind: u8, bytes: &mut &[u8]) -> Option<GcraCharge> {
        let burst = varint::read_u32(bytes).ok()?;
        let count = varint::read_u32(bytes).ok()?;
        let period = Duration::from_micros(varint::read(bytes).ok()?);
        let gcra = Gcra::new(burst, count, period).ok()?;
        let tat = read_ticks(bytes)?;
        let is_part = kind == PART;
        let short = match is_part {
            true => read_ticks(bytes)?,
            false => Ticks::default(),
        };
        // A receipt has one form, and less than one token is missing.
        let is_less = short < gcra.interval() && short.frac < gcra.count();
        let is_valid = is_less && is_part == (short > Ticks::default());
        is_valid.then_some(GcraCharge { gcra, tat, short })
    }
}

impl Gcra {
    /// Returns the longest wait in the bucket's line for a transaction, in microseconds.
    #[inline(always)]
    pub(crate) fn line_us(&self, joins_line: bool) -> u64 {
        // Most limits have no line, so this is checked first.
        match self.max_wait_us() {
            0 => 0,
            most if joins_line => most,
            _ => 0,
        }
    }

    #[inline(never)]
    fn judge_debit(&self, ask: &Ask<'_>, tat: Tat, now: u64) -> Judged<Tat> {
        let next = self.debit(tat, now, ask.cost);
        let part = self.taken_part(tat, next, now, ask.cost);
        let state = match ask.action {
            Action::Debit => next,
            _ => tat,
        };
        Judged {
            taken: part.map(|(cost, short)| TakenPart::new(cost, short)),
            ..Judged::new(state, true)
        }
    }

    #[inline(never)]
    fn judge_refund(&self, ask: &Ask<'_>, tat: Tat, now: u64) -> Option<Tat> {
        let (span, own) = self.refunded(ask.refund, ask.cost);
        self.refund_charge(tat, now, span, own)
    }

    /// Returns the time that a refund gives back, and the TAT right after the charge, if it is known. A charge gives back
    /// at most the charged time, even if tokens now cost more.
    pub(crate) fn refunded(&self, refund: Refund<'_>, cost: u32) -> (Ticks, Option<Tat>) {
        match refund {
            Refund::Cost => (self.increment(cost), None),
            Refund::Charge(Charge::Gcra(charge)) => {
                let span = self.lesser_increment(&charge.gcra, cost, charge.short);
                (span, Some(charge.tat))
            }
            Refund::Charge(_) | Refund::Nothing => (Ticks::default(), None),
        }
    }

    #[inline]
    fn exact(&self, wait: Ticks) -> Wait {
        Wait::new(wait, self.count())
    }
}

fn read_ticks(bytes: &mut &[u8]) -> Option<Ticks> {
    let us = varint::read(bytes).ok()?;
    let frac = varint::read_u32(bytes).ok()?;
    Some(Ticks { us, frac })
}
