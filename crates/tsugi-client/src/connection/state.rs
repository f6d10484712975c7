//! The states of a connection and the moves between them, as a pure function.

use std::fmt;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ConnectionState {
    /// Not connected, and not wanted.
    Disconnected,
    /// The wire is being opened.
    Connecting,
    /// The wire is open; revision and capabilities are being agreed on.
    Initializing,
    /// Calls can be made.
    Connected,
    /// The wire is gone; the next attempt waits for the backoff.
    Reconnecting,
    /// No new calls; those in flight may end.
    Draining,
    /// Given up, until a call or an operator asks again or the pause ends.
    Failed,
}

/// What can happen to a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ConnectionEvent {
    /// A call or an operator wants it connected.
    Wanted,
    /// The wire is open.
    WireUp,
    /// The handshake succeeded.
    Agreed,
    /// The attempt, the handshake or the wire failed, and another try is allowed.
    Broke,
    /// The attempt, the handshake or the wire failed for good.
    GaveUp,
    /// It is to be closed when idle.
    Drain,
    /// It is closed.
    Closed,
}

impl ConnectionState {
    /// The state after `happening`; `None` when it cannot happen in this state.
    pub fn after(self, happening: ConnectionEvent) -> Option<ConnectionState> {
        use ConnectionEvent::*;
        use ConnectionState::*;
        Some(match (self, happening) {
            (Disconnected | Failed, Wanted) => Connecting,
            (Connecting, WireUp) => Initializing,
            (Initializing, Agreed) => Connected,
            (Connecting | Initializing | Connected, Broke) => Reconnecting,
            (Connecting | Initializing | Connected | Reconnecting, GaveUp) => Failed,
            (Reconnecting, Wanted) => Connecting,
            (Connected, Drain) => Draining,
            (Connecting | Initializing | Reconnecting, Drain) => Disconnected,
            (Draining, Broke | GaveUp) => Disconnected,
            (_, Closed) => Disconnected,
            _ => return None,
        })
    }

    /// The name in JSON and in output for people.
    pub fn as_str(self) -> &'static str {
        match self {
            ConnectionState::Disconnected => "disconnected",
            ConnectionState::Connecting => "connecting",
            ConnectionState::Initializing => "initializing",
            ConnectionState::Connected => "connected",
            ConnectionState::Reconnecting => "reconnecting",
            ConnectionState::Draining => "draining",
            ConnectionState::Failed => "failed",
        }
    }
}

impl fmt::Display for ConnectionState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::ConnectionEvent::*;
    use super::ConnectionState::*;
    use super::*;

    const STATES: [ConnectionState; 7] =
        [Disconnected, Connecting, Initializing, Connected, Reconnecting, Draining, Failed];
    const HAPPENINGS: [ConnectionEvent; 7] = [Wanted, WireUp, Agreed, Broke, GaveUp, Drain, Closed];

    /// Every legal move. No other can happen.
    const MOVES: &[(ConnectionState, ConnectionEvent, ConnectionState)] = &[
        (Disconnected, Wanted, Connecting),
        (Disconnected, Closed, Disconnected),
        (Connecting, WireUp, Initializing),
        (Connecting, Broke, Reconnecting),
        (Connecting, GaveUp, Failed),
        (Connecting, Drain, Disconnected),
        (Connecting, Closed, Disconnected),
        (Initializing, Agreed, Connected),
        (Initializing, Broke, Reconnecting),
        (Initializing, GaveUp, Failed),
        (Initializing, Drain, Disconnected),
        (Initializing, Closed, Disconnected),
        (Connected, Broke, Reconnecting),
        (Connected, GaveUp, Failed),
        (Connected, Drain, Draining),
        (Connected, Closed, Disconnected),
        (Reconnecting, Wanted, Connecting),
        (Reconnecting, GaveUp, Failed),
        (Reconnecting, Drain, Disconnected),
        (Reconnecting, Closed, Disconnected),
        (Draining, Broke, Disconnected),
        (Draining, GaveUp, Disconnected),
        (Draining, Closed, Disconnected),
        (Failed, Wanted, Connecting),
        (Failed, Closed, Disconnected),
    ];

    #[test]
    fn every_move_is_in_the_table_and_nothing_else_moves() {
        for state in STATES {
            for happening in HAPPENINGS {
                let expected =
                    MOVES.iter().find(|(from, what, _)| (*from, *what) == (state, happening)).map(|(.., to)| *to);
                assert_eq!(state.after(happening), expected, "{state} on {happening:?}");
            }
        }
    }
}
