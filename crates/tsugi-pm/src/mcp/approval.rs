//! Asking the person at the client where a rule wants a person's word, so that work need not stop for it.
//!
//! Only a process that serves one agent asks: the user who started it stands for that agent, and its client belongs to a
//! person. Behind a gateway anything may call itself a client, and people approve on the board.

use serde::Deserialize;
use serde_json::json;
use tsugi_protocol::json::{JsonObject, RawJson};
use tsugi_protocol::mcp::Method;
use tsugi_protocol::serve::{ElicitationAnswer, HandlerContext, HandlerError, NeedInput};

use super::actor::ServerActor;
use super::service::{PmService, told};
use crate::domain::fault::{Code, PmFault};
use crate::store::tx::hex_digest;

/// The name of the question.
const QUESTION: &str = "approval";

#[derive(Deserialize)]
struct ApprovalForm {
    approve: bool,
}

/// Whether a person was asked about this very call, and said yes.
pub(super) fn is_given(
    service: &PmService,
    tool: &str,
    arguments: &JsonObject,
    context: &HandlerContext,
) -> Result<bool, HandlerError> {
    let is_about_this = context.state() == Some(&state(tool, arguments));
    match context.elicited::<ApprovalForm>(QUESTION)? {
        Some(ElicitationAnswer::Accepted(form)) if may_ask(service) && is_about_this => Ok(form.approve),
        _ => Ok(false),
    }
}

/// The question about a call that needs a person's word; the refusal itself where no user can be asked, or the user declined.
pub(super) fn ask(
    service: &PmService,
    tool: &str,
    arguments: &JsonObject,
    context: &HandlerContext,
    fault: PmFault,
) -> HandlerError {
    let is_new = context.input_responses().is_none() && context.require(&Method::Elicit).is_ok();
    if fault.code != Code::ApprovalRequired || !is_new || !may_ask(service) {
        return told(fault);
    }
    let lang = service.lang();
    let subject = ["title", "task_id"].iter().find_map(|key| arguments.get_str(key)).unwrap_or_default();
    let question = lang.pick("The agent wants a person's word", "エージェントが人の承認を求めています");
    let message = format!("{question}: {tool} {subject:?}\n{}", fault.message);
    let approve = lang.pick("Let it", "承認する");
    let schema = json!({
        "type": "object",
        "properties": {"approve": {"type": "boolean", "title": approve}},
        "required": ["approve"],
    });
    NeedInput::new().form(QUESTION, &message, &RawJson::from(schema)).state(state(tool, arguments)).into()
}

fn may_ask(service: &PmService) -> bool {
    matches!(service.settings.actor, ServerActor::Agent(_))
}

/// A yes is for one call: the same tool with the same arguments.
fn state(tool: &str, arguments: &JsonObject) -> String {
    hex_digest([tool.as_bytes(), b"\0", arguments.bytes()].concat().as_slice())
}
