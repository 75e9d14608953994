//! Concurrency limits in Lua: those of windows, and renewals.

use super::{concurrency::Concurrency, counting::charged_at};
use crate::algorithm::{
    action::{Action, Ask},
    scripted::{Arguments, Replied, Scripted},
    window::{Units, Window, WindowReport, WindowSnapshot, WindowView},
};

impl Scripted for Concurrency {
    const LETTER: &'static str = "C";

    type Report = WindowReport;

    fn arguments(&self, ask: &Ask<'_>) -> Arguments {
        let change = match ask.action {
            Action::Probe | Action::Spend => "spend",
            Action::ProbeDebit | Action::Debit => "debit",
            Action::Refund => self.refund_verb(ask).unwrap_or("keep"),
            Action::Renew | Action::Keep | Action::Reset => "keep",
        };
        self.permits.arguments_of(change, ask)
    }

    fn refund_verb(&self, ask: &Ask<'_>) -> Option<&'static str> {
        charged_at(ask).map(|_| "undo")
    }

    fn mark(ask: &Ask<'_>) -> Option<u64> {
        charged_at(ask)
    }

    fn is_small(&self) -> bool {
        self.permits.is_small()
    }

    fn answered(&self, ask: &Ask<'_>) -> usize {
        self.permits.answered(ask)
    }

    fn read_value(value: &[u8]) -> Option<Units> {
        Window::read_value(value)
    }

    fn read_report<R: Replied>(report: &[R]) -> Option<WindowReport> {
        Window::read_report(report)
    }

    fn view_report<'a>(
        &self,
        report: &'a WindowReport,
        ask: &Ask<'_>,
        asked: u64,
    ) -> WindowView<'a> {
        report.view(asked, charged_at(ask).unwrap_or_default())
    }

    fn units(state: &WindowSnapshot) -> u32 {
        Window::units(state)
    }
}
