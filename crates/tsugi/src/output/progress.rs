//! A progress bar or spinner on stderr.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Dropping it clears the display.
pub(crate) struct ProgressLine(ProgressBar);

impl ProgressLine {
    pub(super) fn new(shown: bool, message: &str, steps: Option<u64>) -> Self {
        let target = if shown { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(steps, target);
        let template = if steps.is_some() { "{msg} {wide_bar} {pos}/{len}" } else { "{spinner} {msg}" };
        bar.set_style(ProgressStyle::with_template(template).expect("the template is fixed and valid"));
        bar.set_message(message.to_owned());
        if shown && steps.is_none() {
            bar.enable_steady_tick(Duration::from_millis(100));
        }
        ProgressLine(bar)
    }

    pub(crate) fn step(&self) {
        self.0.inc(1);
    }

    /// Shows progress as a server reports it.
    pub(crate) fn report(&self, done: f64, total: Option<f64>, message: Option<&str>) {
        if let Some(total) = total.filter(|total| *total > 0.0) {
            self.0.set_length(total as u64);
        }
        self.0.set_position(done.max(0.0) as u64);
        if let Some(message) = message {
            self.0.set_message(super::printable(message).replace('\n', " "));
        }
    }

    /// Prints something without breaking the bar.
    pub(crate) fn aside(&self, say: impl FnOnce()) {
        self.0.suspend(say);
    }

    #[cfg(test)]
    pub(crate) fn is_shown(&self) -> bool {
        !self.0.is_hidden()
    }
}

impl Drop for ProgressLine {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_drawn_when_nobody_watches() {
        let progress = ProgressLine::new(false, "connecting", Some(3));
        progress.step();
        progress.report(f64::NAN, Some(-1.0), Some("x\ny"));
        assert!(!progress.is_shown());
    }
}
