//! Which era a server belongs to, read from its answer to the first request.

use super::session;
use crate::json::JsonObject;
use crate::mcp::ServerIdentity;
use crate::rpc::{ResponsePayload, RpcError, code};

/// What the answer to a `server/discover` on a stream (stdio, WebSocket) shows.
#[derive(Debug, Clone)]
pub enum EraVerdict {
    /// A modern server, and who it is.
    Modern(ServerIdentity),
    /// A modern server that refused this request; it listed these versions, or none when it refused for
    /// another reason than the version. There must be no `initialize`.
    ModernOther {
        /// The versions it listed.
        supported: Vec<String>,
    },
    /// A legacy server: go on with `initialize`. A server that answers as a modern one but lists only
    /// legacy versions counts too, since one of those is what both sides speak.
    Legacy,
}

/// What the HTTP answer to a modern request shows.
#[derive(Debug, Clone)]
pub enum HttpEraVerdict {
    /// A modern server, and who it is.
    Modern(ServerIdentity),
    /// A modern server that refused this request; see [`Verdict::ModernOther`].
    ModernOther {
        /// The versions it listed.
        supported: Vec<String>,
    },
    /// A legacy server: go on with `initialize`.
    Legacy,
    /// Perhaps a legacy server, perhaps one of the two-endpoint transport: try `initialize`, then GET.
    MaybeSse,
    /// Not an answer to the question: credentials are missing, or the server is broken or busy.
    Refused,
}

/// Reads the answer to `server/discover` on a stream. No answer in time means [`Verdict::Legacy`] too
/// ([stdio](https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/stdio#backward-compatibility)).
pub fn of_probe(body: &ResponsePayload) -> EraVerdict {
    match body {
        ResponsePayload::Result(result) => {
            JsonObject::of(result).map_or(EraVerdict::Legacy, |result| of_result(&result))
        }
        ResponsePayload::Error(error) if code::is_modern(error.code()) => of_versions(listed_versions(error)),
        ResponsePayload::Error(_) => EraVerdict::Legacy,
    }
}

fn of_result(result: &JsonObject) -> EraVerdict {
    match session::read_discover_result(result) {
        Ok(identity) => EraVerdict::Modern(identity),
        Err(_) => session::supported_versions(result).map_or(EraVerdict::Legacy, of_versions),
    }
}

fn of_versions(supported: Vec<String>) -> EraVerdict {
    let is_legacy = session::newest_modern(&supported).is_none() && session::newest_legacy(&supported).is_some();
    if is_legacy { EraVerdict::Legacy } else { EraVerdict::ModernOther { supported } }
}

fn listed_versions(error: &RpcError) -> Vec<String> {
    error.data_object().and_then(|data| data.get("supported")?.to().ok()).unwrap_or_default()
}

/// Reads the HTTP answer to `server/discover`. `body` is the JSON-RPC response in it, if there was one
/// ([Streamable HTTP](https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http#backward-compatibility)).
pub fn of_http(status: u16, body: Option<&ResponsePayload>) -> HttpEraVerdict {
    match status {
        401 | 403 | 407 | 408 | 425 | 429 => return HttpEraVerdict::Refused,
        200..=299 | 400..=499 => {}
        _ => return HttpEraVerdict::Refused,
    }
    match body.map_or(EraVerdict::Legacy, of_probe) {
        EraVerdict::Modern(identity) => HttpEraVerdict::Modern(identity),
        EraVerdict::ModernOther { supported } => HttpEraVerdict::ModernOther { supported },
        EraVerdict::Legacy if matches!(status, 400 | 404 | 405) => HttpEraVerdict::MaybeSse,
        EraVerdict::Legacy => HttpEraVerdict::Legacy,
    }
}
