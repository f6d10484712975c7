//! The exact cause of a fault as a type, so that no program has to search a message for it.

use serde::{Deserialize, Serialize};

/// What exactly failed, where a program can act on it. [`FaultCode`](super::FaultCode) says what the failure means for
/// the call; this says what to repair.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
#[non_exhaustive]
pub enum FaultReason {
    /// The server's program is neither a path that exists nor in `PATH`.
    ProgramNotFound,
    /// The server's program exists but may not be executed.
    ProgramNotExecutable,
    /// The server's program is a script whose interpreter does not exist.
    InterpreterNotFound,
    /// The server's working directory does not exist.
    WorkingDirectoryNotFound,
    /// The sandbox forbids reading the program or its interpreter.
    SandboxDenied,
    /// This machine cannot enforce the required sandbox.
    SandboxUnavailable,
    /// The system is short of processes, memory or file descriptors.
    OutOfResources,

    /// The address cannot be used at all.
    InvalidAddress,
    /// The outbound guard does not allow the address, or what its name leads to.
    AddressRefused,
    /// The host name has no address.
    HostNotFound,
    /// Nothing listens on the port.
    ConnectionRefused,
    /// No route leads to the host.
    HostUnreachable,
    /// No connection within the time limit.
    ConnectTimeout,
    /// The certificate is for another host name.
    TlsWrongName,
    /// The certificate has expired or is not valid yet.
    TlsExpired,
    /// No known authority has signed the certificate.
    TlsUntrusted,
    /// The certificate is trusted, but its key is not one of those that are pinned.
    TlsWrongKey,
    /// Files that secure the connection cannot be used.
    TlsFileUnusable,
    /// Any other failure of TLS.
    TlsFailed,
    /// The server answered the WebSocket upgrade with something else.
    UpgradeRefused,
    /// The server redirects to where requests must not follow.
    RedirectRefused,
    /// An HTTP status that is not an answer.
    HttpStatus(u16),
    /// The server answered 401 and names the OAuth server that issues its tokens, and there is no sign-in for it.
    OauthRequired,
    /// There was a sign-in, and it has ended: its provider takes neither token any more.
    SignInEnded,
    /// The sign-in lacks a scope that the server wants.
    SignInScope,
    /// The sign-in cannot be used or made: the server, its provider or the settings do not allow it.
    SignInRefused,
    /// The caller's token lacks a scope that the call needs; the details name all of them.
    InsufficientScope,
    /// The server's answer is not an MCP message.
    NotMcp,

    /// The server has been started and is not ready yet.
    StillStarting,
}
