//! Concurrency limits in Lua: those of windows, and renewals.

use super::{concurrency::Concurrency, counting::charged_at};
use crate::algorithm::{
    action::{Action, Ask},
    scripted::{Argument, Arguments, GroupScript, Replied, Scripted},
    window::{StoredWindow, Window, WindowSnapshot, WindowView},
};

impl Scripted for Concurrency {
    type Found = StoredWindow;

    fn group_script(&self) -> Option<GroupScript> {
        self.permits.group_script()
    }

    fn spend_arguments(&self, ask: &Ask<'_>) -> Arguments {
        self.permits.spend_arguments(ask)
    }

    fn arguments(&self, ask: &Ask<'_>) -> Arguments {
        let charged_at = charged_at(ask);
        let change = match ask.action {
            Action::Probe | Action::Spend => "spend",
            Action::ProbeDebit | Action::Debit => "debit",
            Action::Refund if charged_at.is_some() => "refund",
            Action::Refund | Action::Renew | Action::Keep | Action::Reset => "keep",
        };
        let instant = charged_at.map_or(Argument::NONE, Argument::number);
        self.permits.arguments_of("C", change, ask.cost, instant)
    }

    fn refund_verb(&self, ask: &Ask<'_>) -> Option<&'static str> {
        charged_at(ask).map(|_| "refund")
    }

    /// The script reads and writes the permits as a whole.
    fn answered(&self, ask: &Ask<'_>) -> usize {
        self.permits.answered(ask)
    }

    fn read_found<R: Replied>(first: &R, second: &R, now: u64) -> Option<StoredWindow> {
        Window::read_found(first, second, now)
    }

    fn view_found<'a>(&self, found: &'a StoredWindow, ask: &Ask<'_>) -> WindowView<'a> {
        found.view(&self.permits, charged_at(ask).unwrap_or_default())
    }

    fn spend_found(
        &self,
        ask: &Ask<'_>,
        found: &StoredWindow,
        now: u64,
    ) -> Option<(u32, StoredWindow)> {
        self.permits.spend_found(ask, found, now)
    }

    fn agrees(found: &StoredWindow, state: &WindowSnapshot) -> bool {
        Window::agrees(found, state)
    }
}
