//! Error codes: those of JSON-RPC, those of MCP, and our own.

/// The text was not JSON.
pub const PARSE_ERROR: i64 = -32700;
/// The JSON was not a request.
pub const INVALID_REQUEST: i64 = -32600;
pub const METHOD_NOT_FOUND: i64 = -32601;
/// The parameters do not fit; since 2026-07-28 also a resource that is not there.
pub const INVALID_PARAMS: i64 = -32602;
/// Something broke while answering.
pub const INTERNAL_ERROR: i64 = -32603;

/// A resource that is not there, up to 2025-11-25.
pub const RESOURCE_NOT_FOUND: i64 = -32002;
/// The user must visit an address first, 2025-11-25 only.
pub const URL_ELICITATION_REQUIRED: i64 = -32042;
/// HTTP headers and body disagree.
pub const HEADER_MISMATCH: i64 = -32020;
/// The request needs a capability that the client did not declare.
pub const MISSING_CLIENT_CAPABILITY: i64 = -32021;
/// The protocol version is not spoken here.
pub const UNSUPPORTED_VERSION: i64 = -32022;

/// Errors of tsugi itself lie outside the reserved range, so that they cannot be mistaken for a server's
/// (see [Error Codes](https://modelcontextprotocol.io/specification/2026-07-28/basic#error-codes)).
pub mod own {
    pub const TOO_LARGE: i64 = -31001;
    /// Shed before any byte went upstream.
    pub const OVERLOADED: i64 = -31002;
    /// The server is not running, refused the connection or is parked.
    pub const UPSTREAM_UNAVAILABLE: i64 = -31003;
    /// The deadline passed; the server was told to cancel.
    pub const UPSTREAM_TIMEOUT: i64 = -31004;
    /// The server's answer is not acceptable.
    pub const UPSTREAM_PROTOCOL: i64 = -31005;
    /// The server died or the link broke after the request was sent.
    pub const UPSTREAM_LOST: i64 = -31006;
    /// We are shutting down.
    pub const DRAINING: i64 = -31007;
    /// The caller may not do this.
    pub const PERMISSION_DENIED: i64 = -31008;
    /// The caller did this too often.
    pub const RATE_LIMITED: i64 = -31009;
    /// The server wants a sign-in that is missing, has ended or is refused.
    pub const AUTH_REQUIRED: i64 = -31010;
    /// The server changed the tool since it was pinned.
    pub const TOOL_CHANGED: i64 = -31011;
    /// The audit log cannot be written, and nothing may happen without it.
    pub const AUDIT_UNAVAILABLE: i64 = -31012;
}

/// True for the errors by which a server shows that it speaks a modern revision
/// ([Versioning](https://modelcontextprotocol.io/specification/2026-07-28/basic/versioning)).
pub fn is_modern(code: i64) -> bool {
    matches!(code, HEADER_MISMATCH | MISSING_CLIENT_CAPABILITY | UNSUPPORTED_VERSION)
}
