//! A trace that only the headers of a post know, carried on in the `_meta` of the legacy messages in it.

use ::http::{HeaderMap, HeaderName};
use bytes::Bytes;
use tsugi_protocol::json::{JsonObject, ObjectWriter};
use tsugi_protocol::mcp::meta::RequestMeta;
use tsugi_protocol::rpc::RpcMessage;

use super::legacy_session::batch;
use super::mcp::modern::adopt_trace;

static TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

/// The same message with the trace of the headers, if it is a request.
pub(crate) fn onto(headers: &HeaderMap, message: RpcMessage) -> RpcMessage {
    let RpcMessage::Request(mut request) = message else { return message };
    if headers.contains_key(&TRACEPARENT)
        && let Some(params) = request.params_object()
    {
        let mut meta = RequestMeta {
            rest: params.get_object("_meta").unwrap_or_else(JsonObject::empty),
            ..RequestMeta::default()
        };
        adopt_trace(headers, &mut meta);
        let mut with_trace = ObjectWriter::with_capacity(params.bytes().len() + 96);
        with_trace.members_except(&params, &["_meta"]).raw("_meta", &meta.rest.raw());
        request.params = Some(with_trace.finish());
    }
    RpcMessage::Request(request)
}

/// The same for a message or a batch that is parsed later. One that cannot be parsed is passed on unchanged.
pub(crate) fn onto_bytes(headers: &HeaderMap, bytes: Bytes, most: usize) -> Bytes {
    if !headers.contains_key(&TRACEPARENT) {
        return bytes;
    }
    let with_trace = |bytes: &Bytes| Some(onto(headers, RpcMessage::parse(bytes.clone()).ok()?).to_bytes());
    if !batch::is_batch(&bytes) {
        return with_trace(&bytes).unwrap_or(bytes);
    }
    let messages = batch::split(&bytes, most).ok();
    let traced = messages.and_then(|messages| messages.iter().map(with_trace).collect::<Option<Vec<_>>>());
    traced.map_or(bytes, |messages| batch::array(&messages))
}
