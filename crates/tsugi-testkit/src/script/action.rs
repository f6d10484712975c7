//! The single things that a scripted server can do at a point.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One thing done at a point. Those that end the turn say so; after the others the usual answer follows.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Action {
    /// The process ends with this code.
    Exit(i32),
    /// The process sends itself this signal: `KILL`, `TERM`, `SEGV`, `STOP`, …
    Signal(String),
    /// The usual answer is written half, then the process ends with this code.
    HalfThenExit(i32),
    /// No answer, ever. Ends the turn.
    Silence,
    /// Waits this many milliseconds, then goes on, even if the caller has gone.
    Sleep(u64),
    /// The whole process stops reading and writing, and lives on. Ends the turn.
    Freeze,
    /// Reads no input while it writes this many bytes of notifications, then reads on.
    StopReading(usize),
    /// Closes stdout and lives on.
    CloseStdout,
    /// Closes stdin and lives on.
    CloseStdin,

    /// Writes this text as it is.
    Write(String),
    /// Writes something that is no message.
    Junk(Junk),
    /// Writes a line of this many bytes that is no message.
    LongLine(usize),
    /// Sends so many log notifications as fast as it can.
    Notifications(usize),
    /// Sends so many progress notifications, this many milliseconds apart, if the request has a token.
    Progress {
        /// How many.
        count: usize,
        /// Milliseconds between two.
        every_ms: u64,
    },
    /// Sends a request to the client, whatever the era allows.
    Ask {
        /// Its method.
        method: String,
        /// Its parameters.
        #[serde(default)]
        params: Value,
        /// Waits for the answer before it goes on; the answer is in the journal.
        #[serde(default)]
        wait: bool,
    },
    /// Writes a line to stderr.
    Stderr(String),
    /// Writes this many bytes to stderr, some of them no UTF-8.
    StderrFlood(usize),

    /// The answer has a wrong form.
    Answer(Form),
    /// This error is the answer. Ends the turn.
    Error {
        /// Its code.
        code: i64,
        /// Its message.
        message: String,
        /// Its data.
        #[serde(default)]
        data: Option<Value>,
    },
    /// This result is the answer. Ends the turn.
    Result(Value),

    /// Starts so many children that sleep, in its own group.
    Children(usize),
    /// Starts so many children that leave group, session and parent (double fork and setsid), and sleep.
    Detached(usize),
    /// Starts children that start children, until there are so many (never more than 100).
    ForkBomb(usize),
    /// Takes this many bytes of memory and touches them.
    Allocate(usize),
    /// Keeps so many threads busy.
    Spin(usize),

    /// HTTP: this status, with these headers and this body, is the answer. Ends the turn.
    Status {
        /// The number.
        code: u16,
        /// Headers.
        #[serde(default)]
        headers: Vec<(String, String)>,
        /// The body.
        #[serde(default)]
        body: String,
    },
    /// HTTP: the connection is reset. Ends the turn.
    Reset,
    /// HTTP: every legacy session is forgotten.
    ForgetSessions,
}

/// What no reader should choke on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Junk {
    /// A line of words.
    Words,
    /// An empty line.
    Blank,
    /// A line of JSON that is no message.
    Json,
    /// The beginning of a message, cut by a line end.
    Partial,
    /// A byte order mark before the next message.
    Bom,
    /// A line with one byte that is no UTF-8.
    OneByte,
    /// 200 KB of bytes without order, with line ends among them.
    Random,
    /// A line nested 200,000 deep.
    Deep,
}

/// A wrong form of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Form {
    /// The same answer twice.
    Twice,
    /// An answer to a request that nobody sent, then the answer.
    UnknownIdFirst,
    /// The id as a string of digits, if it was a number, and the other way round.
    OtherIdType,
    /// The id is null.
    NullId,
    /// The id as a number with a fraction of nothing, `7.0`.
    FloatId,
    /// No id at all.
    NoId,
    /// A result and an error in one message.
    ResultAndError,
    /// Neither a result nor an error.
    Neither,
    /// The result is a string.
    ResultIsText,
    /// `jsonrpc` is "1.0".
    OldJsonRpc,
    /// The answer inside an array.
    InArray,
    /// With spaces between the members, as Python writes it.
    Spaced,
    /// Spread over several lines.
    Indented,
}
