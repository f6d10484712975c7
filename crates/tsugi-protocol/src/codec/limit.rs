//! The limits on what a peer may send.

use std::time::Duration;

const KIB: usize = 1024;
const MIB: usize = 1024 * KIB;

/// Limits that no configuration changes.
#[derive(Debug, Clone, Copy)]
pub struct InputLimits;

impl InputLimits {
    /// One line of a stdio stream, one `Content-Length` frame or one WebSocket message.
    pub const LINE: usize = 16 * MIB;
    /// One server-sent event.
    pub const EVENT: usize = 16 * MIB;
    /// One header line of a `Content-Length` frame.
    pub const HEADER: usize = 4 * KIB;
    /// Everything a server sends in answer to one call.
    pub const ANSWER: usize = 64 * MIB;
    /// Pages of one list.
    pub const PAGES: usize = 64;
    /// How long a reader may stall before its stream is closed.
    pub const STALL: Duration = Duration::from_secs(30);
}
