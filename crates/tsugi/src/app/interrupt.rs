//! The signals that ask us to end.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Ctrl-C, a polite end, and a terminal that went away.
pub(super) struct InterruptSignals([Signal; 3]);

impl InterruptSignals {
    /// From now on these signals no longer end the process by themselves.
    pub(super) fn listen() -> io::Result<Self> {
        Ok(InterruptSignals([
            signal(SignalKind::interrupt())?,
            signal(SignalKind::terminate())?,
            signal(SignalKind::hangup())?,
        ]))
    }

    /// Waits for the next one. Safe to drop.
    pub(super) async fn next(&mut self) {
        let [interrupt, terminate, hangup] = &mut self.0;
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            _ = hangup.recv() => {}
        }
    }
}
