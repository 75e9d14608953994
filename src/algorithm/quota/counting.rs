//! A quota as one of the algorithms.

use std::{convert::Infallible, time::Duration};

use super::{
    quota::{Quota, Usage},
    receipt::QuotaCharge,
    row,
};
use crate::{
    algorithm::{
        action::{Action, Ask, Refund},
        algorithm_key::AlgorithmKey,
        charge::Charge,
        counting::{Counting, Judged, ShownIn, TakenPart},
        refill::Refill,
        row_value::RowValue,
        ticks::{Ticks, Wait},
        time::{LATEST_US, read_instant},
    },
    varint::{self, Malformed},
};

/// A charge as text.
const CHARGE: u8 = 0x13;

impl Counting for Quota {
    const KEY: AlgorithmKey = AlgorithmKey::Quota;
    const KIND: u8 = 4;
    const FITS_ROW: bool = true;
    const CHARGE_KINDS: &'static [u8] = &[CHARGE];

    type Stored = Usage;
    type View<'a> = Usage;
    type State = Usage;
    type Charge = QuotaCharge;
    type Terms = Infallible;

    #[inline]
    fn view(&self, stored: Option<&Usage>, _: u64) -> Usage {
        stored.copied().unwrap_or(Usage::NOTHING)
    }

    fn keep(&self, stored: Option<Usage>, action: Action, state: Usage, now: u64) -> Option<Usage> {
        let before = stored.map_or(Usage::NOTHING, |usage| self.current(usage, now));
        match action.writes() && state != before {
            true => Some(state).filter(|usage| *usage != Usage::NOTHING),
            false => stored,
        }
    }

    fn lapses_at(&self, usage: &Usage) -> u64 {
        match usage.used {
            0 => 0,
            _ => self.per.end(usage.start_us),
        }
    }

    fn write(usage: &Usage, bytes: &mut Vec<u8>) {
        varint::write(bytes, usage.start_us.min(LATEST_US));
        varint::write(bytes, usage.used.into());
    }

    fn read(bytes: &mut &[u8]) -> Result<Usage, Malformed> {
        let start_us = read_instant(bytes)?;
        match varint::read_u32(bytes)? {
            0 => Err(Malformed::Impossible("a quota of which nothing is used")),
            used => Ok(Usage { start_us, used }),
        }
    }

    #[inline(always)]
    fn view_row(&self, value: RowValue, _: u64) -> Usage {
        row::usage(value)
    }

    #[inline(always)]
    fn row(&self, usage: Usage) -> RowValue {
        row::value(self, usage)
    }

    #[inline(always)]
    fn judge(&self, ask: &Ask<'_>, usage: Usage, now: u64) -> Judged<Usage> {
        let next = match ask.action {
            Action::Probe | Action::Spend => self.spend(usage, now, ask.cost),
            Action::ProbeDebit | Action::Debit => return self.judge_debit(ask, usage, now),
            Action::Refund => match ask.refund {
                Refund::Cost => self.refund(usage, now, ask.cost),
                Refund::Charge(Charge::Quota(charge)) => {
                    self.refund_in(usage, now, charge.start_us, ask.cost)
                }
                Refund::Charge(_) | Refund::Nothing => None,
            },
            Action::Renew | Action::Keep | Action::Reset => None,
        };
        let after = next.filter(|_| ask.action != Action::Probe);
        let state = after.unwrap_or_else(|| self.current(usage, now));
        Judged::new(state, next.is_some())
    }

    fn untouched(&self, _: &Ask<'_>, usage: Usage, now: u64) -> Usage {
        self.current(usage, now)
    }

    fn probed(&self, ask: &Ask<'_>, usage: Usage, now: u64) -> Usage {
        match ask.action {
            Action::ProbeDebit => self.debit(usage, now, ask.cost),
            _ => self.spend(usage, now, ask.cost).unwrap_or(usage),
        }
    }

    fn with_held(&self, usage: Usage, _: u64, held: u32) -> Usage {
        let used = usage.used.min(self.quota).saturating_sub(held);
        Usage { used, ..usage }
    }

    fn charge(shown: &ShownIn<Self>) -> Option<(QuotaCharge, u32)> {
        let start_us = shown.state.start_us;
        Some((QuotaCharge { start_us }, shown.taken()))
    }

    fn remaining(shown: &ShownIn<Self>) -> u32 {
        shown.by.remaining(shown.state, shown.now)
    }

    fn wait(shown: &ShownIn<Self>) -> Wait {
        Wait::micros(shown.by.wait(shown.state, shown.now, shown.cost))
    }

    fn reset_after(shown: &ShownIn<Self>) -> Wait {
        Wait::micros(shown.by.reset_after(shown.state, shown.now))
    }

    fn next_room(shown: &ShownIn<Self>) -> (u32, Option<Wait>) {
        let reset = shown.by.reset_after(shown.state, shown.now);
        let more = Some(reset).filter(|reset| *reset > 0);
        (Counting::remaining(shown), more.map(Wait::micros))
    }

    fn allowance(shown: &ShownIn<Self>) -> (u32, Duration) {
        let period = shown.by.period(shown.state, shown.now);
        (shown.by.quota, Duration::from_micros(period))
    }

    /// A period that starts with the first use ends no later than a window after any use of it.
    fn refill(shown: &ShownIn<Self>) -> Option<Refill> {
        let us = shown.by.per.first_use_length()?.as_micros();
        u64::try_from(us).ok().map(|us| Refill::Windowed { us })
    }

    /// The lengths of months differ.
    #[inline]
    fn is_usual(shown: &ShownIn<Self>) -> bool {
        !shown.by.per.is_month()
    }

    fn charge_numbers(charge: &QuotaCharge) -> (u8, Vec<u64>) {
        (CHARGE, vec![charge.start_us])
    }

    fn read_charge(_: u8, bytes: &mut &[u8]) -> Option<QuotaCharge> {
        let start_us = varint::read(bytes).ok()?;
        Some(QuotaCharge { start_us })
    }
}

impl Quota {
    #[inline(never)]
    fn judge_debit(&self, ask: &Ask<'_>, usage: Usage, now: u64) -> Judged<Usage> {
        let before = self.current(usage, now);
        let next = self.debit(usage, now, ask.cost);
        let cost = next.used - before.used;
        let short = Ticks::default();
        let state = match ask.action {
            Action::Debit => next,
            _ => before,
        };
        Judged {
            taken: (cost < ask.cost).then(|| TakenPart::new(cost, short)),
            ..Judged::new(state, true)
        }
    }
}
