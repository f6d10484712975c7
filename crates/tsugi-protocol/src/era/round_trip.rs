//! Requests of a server to its client: messages in legacy revisions, questions inside a result in the modern one.

use super::revision;
use crate::answer::InputRequired;
use crate::json::rewrite::{self, MemberEdit};
use crate::json::{JsonObject, ObjectWriter, RawJson};
use crate::mcp::input::Question;
use crate::mcp::meta::PROGRESS_TOKEN;
use crate::mcp::{Method, ProtocolVersion};
use crate::rpc::{RequestId, ResponsePayload, RpcError, RpcRequest, code};

/// A legacy server's request as a modern question; `None` when it is not one of the three that can be asked.
/// Its key is made of the request's id, so that no two open requests share one.
///
/// What belongs to a request on the wire is left out: its progress token, its task, and the
/// `elicitationId` that 2026-07-28 removed.
pub fn question(request: &RpcRequest) -> Option<Question> {
    if !matches!(request.method, Method::Elicit | Method::CreateMessage | Method::RootsList) {
        return None;
    }
    let params = match request.params.as_ref().filter(|params| !params.is_null()) {
        None => None,
        Some(params) => Some(asked(&JsonObject::of(params)?, &request.method).raw()),
    };
    Some(Question { key: key_of(&request.id), method: request.method.clone(), params })
}

/// A number as it is written; of a string its content. A string that reads as a number, or begins with a quote, stays
/// as it is written too: no other id has that key.
fn key_of(id: &RequestId) -> String {
    let is_apart = |content: &String| !content.starts_with('"') && content.parse::<f64>().is_err();
    id.raw().as_string().filter(is_apart).unwrap_or_else(|| id.raw().as_str().to_owned())
}

fn asked(params: &JsonObject, method: &Method) -> JsonObject {
    rewrite::members(params, |key, member| match key {
        "task" => MemberEdit::Drop,
        "elicitationId" if *method == Method::Elicit => MemberEdit::Drop,
        "_meta" => without_token(&params.value(member)),
        _ => MemberEdit::Keep,
    })
}

fn without_token(meta: &RawJson) -> MemberEdit {
    let Some(meta) = JsonObject::of(meta).filter(|meta| meta.has(PROGRESS_TOKEN)) else { return MemberEdit::Keep };
    let rest = rewrite::without(&meta, |key| key == PROGRESS_TOKEN);
    if rest.is_empty() { MemberEdit::Drop } else { MemberEdit::Replace(rest.raw()) }
}

/// A modern question as the request that a legacy client of this revision understands; `None` when that
/// revision has no words for it.
pub fn to_request(question: &Question, id: RequestId, version: ProtocolVersion) -> Option<RpcRequest> {
    let params = question.params_object();
    let params = match question.method {
        Method::Elicit => Some(elicitation(&params, &id, version)?),
        Method::CreateMessage => Some(revision::sampling_params(&params, version)?),
        // Parameters are optional here alone: an empty object stays one, and none stay none.
        Method::RootsList => question.params.is_some().then_some(params),
        _ => return None,
    };
    Some(RpcRequest::new(id, question.method.clone(), params.map(|params| params.raw())))
}

fn elicitation(params: &JsonObject, id: &RequestId, version: ProtocolVersion) -> Option<JsonObject> {
    let is_url = params.get_str("mode").as_deref() == Some("url");
    if is_url {
        return (version >= ProtocolVersion::V2025_11_25).then(|| with_elicitation_id(params, id));
    }
    if version < ProtocolVersion::V2025_06_18 {
        return None;
    }
    let schema = match params.get("requestedSchema") {
        Some(schema) => Some(revision::requested_schema(&schema, version)?),
        None => None,
    };
    Some(rewrite::members(params, |key, _| match key {
        // 2025-06-18 has forms only, and no word for them.
        "mode" if version < ProtocolVersion::V2025_11_25 => MemberEdit::Drop,
        "requestedSchema" => MemberEdit::replace(schema.clone()),
        _ => MemberEdit::Keep,
    }))
}

/// 2025-11-25 demands an id by which the end of the visit could be announced. The request's own is as good
/// as any: it is unique in its session, and the end is never announced.
fn with_elicitation_id(params: &JsonObject, id: &RequestId) -> JsonObject {
    let id = id.raw().as_string().unwrap_or_else(|| id.raw().to_string());
    rewrite::with(params, "elicitationId", &RawJson::string(&id))
}

/// A legacy client's answer as the answer to a modern question. A modern answer cannot be an error: an
/// elicitation that failed counts as dismissed, and for the others there is `None`.
pub fn answer_to_modern(method: &Method, body: &ResponsePayload) -> Option<RawJson> {
    match body {
        ResponsePayload::Result(result) if result.is_object() => Some(result.clone()),
        _ if *method == Method::Elicit => Some(dismissed()),
        _ => None,
    }
}

/// The answer to a modern question as the result that a legacy server of this revision gets for its request.
pub fn answer_to_legacy(method: &Method, answer: &RawJson, version: ProtocolVersion) -> RawJson {
    let Some(answer) = JsonObject::of(answer) else { return answer.clone() };
    // Legacy results have no such member.
    let answer = rewrite::without(&answer, |key| key == "resultType");
    match method {
        Method::CreateMessage => revision::sampling_result(&answer, version).raw(),
        _ => answer.raw(),
    }
}

fn dismissed() -> RawJson {
    RawJson::literal(r#"{"action":"cancel"}"#)
}

/// The error by which a server of 2025-11-25 says that the user must visit addresses first, as an
/// `input_required` result; `None` for any other error, and when it names no address. It has no state:
/// retrying the call is all that the server expects
/// ([URL Elicitation Required](https://modelcontextprotocol.io/specification/2025-11-25/client/elicitation#url-elicitation-required-error)).
pub fn url_required(error: &RpcError) -> Option<InputRequired> {
    if error.code() != code::URL_ELICITATION_REQUIRED {
        return None;
    }
    let elicitations = error.data_object()?.get("elicitations")?.items()?;
    let mut requests = ObjectWriter::with_capacity(256);
    for (index, elicitation) in elicitations.iter().enumerate() {
        let params = JsonObject::of(elicitation).filter(|params| params.has("url"))?;
        requests.raw(&format!("url-{index}"), &url_question(&params));
    }
    if requests.is_empty() {
        return None;
    }
    Some(InputRequired {
        requests: Some(Box::new(requests.finish_object())),
        state: None,
        rest: Box::new(JsonObject::empty()),
        release: None,
    })
}

fn url_question(params: &JsonObject) -> RawJson {
    let mut question = ObjectWriter::with_capacity(params.bytes().len() + 48);
    question.string("method", Method::Elicit.as_str());
    question.raw("params", &asked(params, &Method::Elicit).raw());
    question.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_questions_key_is_what_its_id_says_and_no_two_ids_share_one() {
        let key = |id: &'static str| key_of(&RequestId::from_raw(RawJson::literal(id)).unwrap());
        assert_eq!(
            (key(r#""user_name""#), key(r#""srv-1""#), key("7")),
            ("user_name".into(), "srv-1".into(), "7".into())
        );
        assert_eq!(key(r#""a\"b""#), r#"a"b"#);
        let ids = ["1", r#""1""#, r#""\"1\"""#, "1.0", r#""1.0""#, "-1", r#""-1""#, r#""""#, r#""x""#, r#""\"x\"""#];
        let keys: std::collections::HashSet<String> = ids.into_iter().map(key).collect();
        assert_eq!(keys.len(), ids.len(), "{keys:?}");
    }
}
