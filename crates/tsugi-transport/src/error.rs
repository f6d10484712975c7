//! What can go wrong on a wire, and whether anything had been sent by then.

use std::time::Duration;

/// A wire failed.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{message}")]
pub struct TransportError {
    /// What kind of failure.
    pub kind: TransportErrorKind,
    /// In words, with the cause.
    pub message: String,
    /// What to try, where there is something.
    pub hint: Option<String>,
    /// False only when it is certain that no byte of the message reached the server.
    pub may_be_sent: bool,
}

/// Kinds of failure that a caller treats differently.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TransportErrorKind {
    /// The program could not be started.
    Spawn {
        /// Whether the same attempt may succeed later without anybody's help.
        may_pass: bool,
    },
    /// No connection: refused, unreachable, name not found, TLS refused.
    Connect,
    /// The connection was there and broke.
    Lost,
    /// The peer said something that the wire's rules forbid.
    Protocol,
    /// Larger than a limit.
    TooLarge,
    /// An HTTP status that is not an answer.
    Status {
        /// The status.
        status: u16,
        /// `Retry-After`, when the server said so.
        retry_after: Option<Duration>,
    },
}

impl TransportError {
    /// A failure before anything could have been sent.
    pub fn unsent(kind: TransportErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), hint: None, may_be_sent: false }
    }

    /// A failure after something may have been sent.
    pub fn sent(kind: TransportErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), hint: None, may_be_sent: true }
    }

    /// With advice.
    pub fn with_hint(mut self, hint: Option<String>) -> Self {
        self.hint = hint;
        self
    }
}

/// An error and everything behind it, as one line.
pub(crate) fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    text
}
