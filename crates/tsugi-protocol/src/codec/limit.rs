//! Every number by which input is bounded, in one place.

use std::time::Duration;

const KIB: usize = 1024;
const MIB: usize = 1024 * KIB;

/// The limits that hold unless the configuration says otherwise.
#[derive(Debug, Clone, Copy)]
pub struct InputLimits;

impl InputLimits {
    /// The body of an HTTP request, after decompression.
    pub const BODY: usize = 4 * MIB;
    /// One line of a stdio stream, one `Content-Length` frame or one WebSocket message.
    pub const LINE: usize = 16 * MIB;
    /// One server-sent event.
    pub const EVENT: usize = 16 * MIB;
    /// One header line of a `Content-Length` frame.
    pub const HEADER: usize = 4 * KIB;
    /// Everything a server sends in answer to one call.
    pub const ANSWER: usize = 64 * MIB;

    /// How long a call may be silent.
    pub const CALL_IDLE: Duration = Duration::from_secs(60);
    /// How long a call may take, whatever its progress.
    pub const CALL_TOTAL: Duration = Duration::from_secs(600);
    /// How long connecting may take.
    pub const CONNECT: Duration = Duration::from_secs(5);
    /// How long discovery and `initialize` may take together.
    pub const HANDSHAKE: Duration = Duration::from_secs(30);

    /// Calls in flight per server.
    pub const IN_FLIGHT: usize = 64;
    /// Calls that may wait for one of those places.
    pub const QUEUE: usize = 256;
    /// How long a call may wait for such a place before it is refused.
    pub const QUEUE_WAIT: Duration = Duration::from_secs(3);

    /// Legacy sessions in all.
    pub const SESSIONS: usize = 10_000;
    /// Legacy sessions per caller.
    pub const SESSIONS_PER_CALLER: usize = 1_000;
    /// How long a legacy session may be silent.
    pub const SESSION_IDLE: Duration = Duration::from_secs(30 * 60);

    pub const SUBSCRIPTIONS: usize = 1_024;
    /// How often one call may come back with questions.
    pub const ROUNDS: usize = 10;
    /// Pages of one list.
    pub const PAGES: usize = 64;
    /// Messages of one batch.
    pub const BATCH: usize = 50;

    /// What is held for one stream whose reader does not read.
    pub const SEND_BUFFER: usize = MIB;
    /// How long such a reader may stall.
    pub const STALL: Duration = Duration::from_secs(30);

    /// What is kept of a child's standard error.
    pub const STDERR: usize = 64 * KIB;
    /// How long a child has to go after its input was closed.
    pub const STOP_CLOSE: Duration = Duration::from_secs(2);
    /// How long it has after SIGTERM.
    pub const STOP_TERM: Duration = Duration::from_secs(3);
    /// How long all of that may take, SIGKILL included.
    pub const STOP_TOTAL: Duration = Duration::from_secs(6);

    /// The first pause before a server is started again.
    pub const RESTART_FIRST: Duration = Duration::from_millis(100);
    /// The longest such pause.
    pub const RESTART_LONGEST: Duration = Duration::from_secs(30);
    /// Starts within [`Limits::RESTART_WINDOW`] after which a server is parked.
    pub const RESTART_BURST: usize = 5;
    /// The window in which starts are counted.
    pub const RESTART_WINDOW: Duration = Duration::from_secs(10);
    /// How often a parked server is tried, and how long one must be healthy to start afresh.
    pub const RESTART_PROBE: Duration = Duration::from_secs(60);

    /// Tries of one call, the first included.
    pub const TRIES: usize = 2;
    /// Retries per hundred calls.
    pub const RETRY_BUDGET_PERCENT: usize = 20;

    /// How long calls in flight may take after we were told to stop.
    pub const DRAIN: Duration = Duration::from_secs(30);
}
