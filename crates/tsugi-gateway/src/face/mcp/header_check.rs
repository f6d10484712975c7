//! Header and body must say the same: else a proxy that reads headers and a server that reads bodies
//! could be told two different things
//! ([Server Validation](https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http#server-validation)).

use ::http::header::AsHeaderName;
use ::http::{HeaderMap, HeaderName};
use tsugi_protocol::json::JsonObject;
use tsugi_protocol::mcp::Method;
use tsugi_protocol::rpc::{RpcError, code};
use tsugi_schema::header_param::{HeaderParams, decode};

use crate::backend::ToolHeaders;

// Names made beforehand need not be hashed and checked with every request.
static MCP_METHOD: HeaderName = HeaderName::from_static("mcp-method");
static MCP_NAME: HeaderName = HeaderName::from_static("mcp-name");

/// Checks `Mcp-Method`, `Mcp-Name` and the mirrored arguments of a request.
pub(super) fn check(
    headers: &HeaderMap,
    method: &Method,
    params: &JsonObject,
    tools: &dyn ToolHeaders,
) -> Result<(), RpcError> {
    check_method(headers, method)?;
    let Some(key) = named_by(method) else { return Ok(()) };
    let name = match params.get_str(key) {
        Some(name) => name,
        // What no header can be compared with must not slip past those who read headers.
        None if params.has(key) => return Err(mismatch("the name in the body is no text")),
        None => return Ok(()),
    };
    check_name(headers, &name)?;
    if *method == Method::ToolsCall
        && let Some(mirrored) = tools.header_params(&name)
    {
        return check_arguments(headers, &mirrored, params);
    }
    Ok(())
}

fn check_method(headers: &HeaderMap, method: &Method) -> Result<(), RpcError> {
    match only(headers, &MCP_METHOD)? {
        Some(value) if value == method.as_str().as_bytes() => Ok(()),
        Some(_) => Err(mismatch("the Mcp-Method header differs from the method in the body")),
        None => Err(mismatch("the Mcp-Method header is missing")),
    }
}

/// The parameter that is also in `Mcp-Name`.
fn named_by(method: &Method) -> Option<&'static str> {
    match method {
        Method::ToolsCall | Method::PromptsGet => Some("name"),
        Method::ResourcesRead => Some("uri"),
        Method::TasksGet | Method::TasksUpdate | Method::TasksCancel => Some("taskId"),
        _ => None,
    }
}

fn check_name(headers: &HeaderMap, name: &str) -> Result<(), RpcError> {
    let Some(value) = only(headers, &MCP_NAME)? else { return Err(mismatch("the Mcp-Name header is missing")) };
    let is_plain = !value.starts_with(b"=?");
    if is_plain && value == name.as_bytes() {
        return Ok(());
    }
    match decode(value) {
        Ok(decoded) if decoded == name => Ok(()),
        _ => Err(mismatch("the Mcp-Name header differs from the name in the body")),
    }
}

fn check_arguments(headers: &HeaderMap, mirrored: &HeaderParams, params: &JsonObject) -> Result<(), RpcError> {
    let arguments = params.get("arguments").and_then(|arguments| arguments.to().ok()).unwrap_or_default();
    for param in mirrored.iter() {
        let name = param.header_name();
        let received = only(headers, name.as_str())?;
        param.compare(received, &arguments).map_err(|reason| mismatch(&format!("the {name} header: {reason}")))?;
    }
    Ok(())
}

/// A header that may be there once.
pub(super) fn only(
    headers: &HeaderMap,
    name: impl AsHeaderName + std::fmt::Display + Copy,
) -> Result<Option<&[u8]>, RpcError> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (None, _) => Ok(None),
        (Some(value), None) => Ok(Some(value.as_bytes())),
        _ => Err(mismatch(&format!("the {name} header is there more than once"))),
    }
}

pub(super) fn mismatch(message: &str) -> RpcError {
    RpcError::new(code::HEADER_MISMATCH, message)
}
