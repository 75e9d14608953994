//! A progress bar on standard error, if that is a terminal.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

const FILES: &str = "{bar:40} {bytes} of {total_bytes}, {bytes_per_sec}, {eta} left";
const STREAM: &str = "{spinner} {bytes}, {bytes_per_sec}";

/// A bar for bytes that are read: so many, if that is known.
pub(crate) fn bar(length: Option<u64>) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(length, ProgressDrawTarget::stderr_with_hz(5));
    let template = if length.is_some() { FILES } else { STREAM };
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    bar.enable_steady_tick(Duration::from_millis(500));
    bar
}
