//! Signals of a service: stop, or reload.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// The signals that a service minds.
pub(crate) struct ServiceSignals {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
}

impl ServiceSignals {
    /// From now on these signals no longer end the process by themselves.
    pub(crate) fn listen() -> io::Result<Self> {
        Ok(ServiceSignals {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    /// Waits for a wish to stop. Safe to drop.
    pub(crate) async fn stop(&mut self) {
        wait(&mut self.interrupt, &mut self.terminate).await;
    }

    /// Waits for the next signal. Cancel-safe.
    pub(crate) async fn next(&mut self) -> SignalAction {
        tokio::select! {
            () = wait(&mut self.interrupt, &mut self.terminate) => SignalAction::Stop,
            _ = self.hangup.recv() => SignalAction::Reload,
        }
    }
}

/// What a signal asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SignalAction {
    Stop,
    Reload,
}

async fn wait(interrupt: &mut Signal, terminate: &mut Signal) {
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
}
