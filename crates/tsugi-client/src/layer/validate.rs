//! Checks arguments and structured results against a tool's schemas, with errors that a model can act on.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use serde_json::Value;
use tsugi_protocol::answer::{
    Answer, Call, CallStage, Fault, FaultCode, Outcome, Reply, ReplyEvent, ReplySource, SentState,
};
use tsugi_protocol::json::{JsonObject, RawJson};
use tsugi_protocol::mcp::task;
use tsugi_protocol::mcp::tool::is_error;
use tsugi_schema::validate::{SchemaViolations, ValidationLimits, Validator};

use crate::config::ValidationMode;
use crate::tool_table::{CHECKING, KnownTool, ToolTable};

/// Checks calls of tools. A tool that is not in the server's list passes, and so does one whose schema is careless. One
/// whose schema is hostile is refused where checking is enforced.
#[derive(Clone)]
pub(crate) struct ValidateLayer {
    inner: Arc<dyn Answer>,
    server: Arc<str>,
    tools: Arc<ToolTable>,
    list: Option<ListSource>,
}

/// Waits until the server's list of tools is known, and starts the server for that. The call says how long it has.
/// An error is the reason why the call cannot be made.
pub(crate) type ListSource = Arc<dyn Fn(&Call) -> ListWait + Send + Sync>;
type ListWait = Pin<Box<dyn Future<Output = Result<(), Fault>> + Send>>;

impl ValidateLayer {
    /// Around `inner`. Without a `list`, a call that comes before the server's tools are known passes unchecked.
    pub(crate) fn new(
        inner: Arc<dyn Answer>,
        server: Arc<str>,
        tools: Arc<ToolTable>,
        list: Option<ListSource>,
    ) -> Self {
        Self { inner, server, tools, list }
    }

    /// Waits for the list before the call is checked.
    fn after_listing(&self, listing: ListWait, call: Call) -> Reply {
        let layer = Self { list: None, ..self.clone() };
        Reply::from_pending_reply(async move {
            match listing.await {
                // Without a list after all, there is nothing to check against.
                Ok(()) => layer.answer(call),
                Err(fault) => Reply::fault(fault),
            }
        })
    }

    /// The fault to answer with instead of calling.
    fn refuse(&self, call: &Call, tool: &KnownTool) -> Option<Fault> {
        // A hostile schema is refused even when its arguments would pass.
        if let Some(reason) = tool.refusal() {
            let message = format!("{:?} is not called, since it cannot be checked: {reason}", tool.name());
            let fault = Fault::new(FaultCode::CannotExecute, message).on_server(&self.server).on_tool(tool.name());
            return Some(fault.with_hint("`validate: off` for this tool lets it be called all the same"));
        }
        if tool.policy.arguments == ValidationMode::Off {
            return None;
        }
        // The clock is read only for calls that are being traced.
        let timed = call.options.timeline.as_ref().map(|timeline| (timeline, Instant::now()));
        let fault = check_arguments(tool, call.params.get("arguments").as_ref());
        if let Some((timeline, began)) = timed {
            timeline.add("validate", began, Instant::now(), fault.as_ref().map(|_| "the arguments do not fit".into()));
        }
        let fault = fault?.on_server(&self.server);
        if tool.policy.arguments == ValidationMode::Enforce {
            return Some(fault);
        }
        let server = &self.server;
        // Limited to one line a minute per tool.
        if tool.may_complain(Instant::now()) {
            tracing::warn!(target: CHECKING, %server, tool = tool.name(), "arguments do not fit: {}", fault.message);
        }
        None
    }

    /// Compiles the schemas of a tool before its first call, on a thread where that blocks no other call.
    fn after_preparing(&self, tool: Arc<KnownTool>, call: Call) -> Reply {
        let layer = self.clone();
        Reply::from_pending_reply(async move {
            let prepared = tokio::task::spawn_blocking(move || tool.prepare()).await;
            match prepared {
                Ok(()) => layer.answer(call),
                Err(error) => Reply::fault(Fault::new(FaultCode::InternalError, error.to_string())),
            }
        })
    }
}

/// What a look at a tool says of a call.
enum SchemaLookup {
    Refuse(Fault),
    /// It passes, and its result is to be checked.
    Check(Arc<KnownTool>),
    Pass,
    /// The schemas are not compiled yet.
    Prepare(Arc<KnownTool>),
}

impl Answer for ValidateLayer {
    fn answer(&self, call: Call) -> Reply {
        if let Some(list) = self.list.as_ref().filter(|_| self.tools.lacks_list_for(&call)) {
            return self.after_listing(list(&call), call);
        }
        let looked = self.tools.of(&call, |tool| {
            if !tool.is_prepared() {
                // A large schema is compiled on another thread, a small one right here.
                if !tool.is_light() {
                    return SchemaLookup::Prepare(tool.clone());
                }
                tool.prepare();
            }
            match self.refuse(&call, tool) {
                Some(fault) => SchemaLookup::Refuse(fault),
                None if checks_results(tool) => SchemaLookup::Check(tool.clone()),
                None => SchemaLookup::Pass,
            }
        });
        let tool = match looked {
            Some(SchemaLookup::Prepare(tool)) => return self.after_preparing(tool, call),
            Some(SchemaLookup::Refuse(fault)) => return Reply::fault(fault),
            Some(SchemaLookup::Check(tool)) => tool,
            Some(SchemaLookup::Pass) | None => return self.inner.answer(call),
        };
        let (server, reply) = (self.server.clone(), self.inner.answer(call));
        match reply.into_ready() {
            Ok(outcome) => Reply::ready(checked(&server, &tool, outcome)),
            Err(reply) => Reply::from_source(ValidateReply { reply, server, tool }),
        }
    }
}

fn checks_results(tool: &KnownTool) -> bool {
    tool.policy.results != ValidationMode::Off && tool.output().is_some()
}

/// What is wrong with the arguments of a call; `None` when nothing is, or nothing can be said.
pub(crate) fn check_arguments(tool: &KnownTool, arguments: Option<&RawJson>) -> Option<Fault> {
    let faults = check(tool.input()?, arguments.map_or(b"{}", |raw| &raw.bytes()[..])).err()?;
    if faults.is_undecided {
        tracing::warn!(tool = tool.name(), "arguments were not checked: {faults}");
        return None;
    }
    let message = format!("the arguments of {:?} do not fit its schema: {faults}", tool.name());
    let fault = Fault::new(FaultCode::InvalidParams, message).on_tool(tool.name());
    Some(fault.with_details(details(&faults)))
}

fn check(validator: &Validator, bytes: &[u8]) -> Result<(), SchemaViolations> {
    if validator.accepts(bytes) {
        return Ok(());
    }
    let whole = |message: String| SchemaViolations {
        list: vec![tsugi_schema::validate::SchemaViolation {
            instance: tsugi_schema::pointer::JsonPointer::root(),
            schema: tsugi_schema::pointer::JsonPointer::root(),
            message,
        }],
        has_more: false,
        is_undecided: false,
    };
    let limit = ValidationLimits::default().value_bytes;
    if bytes.len() > limit {
        return Err(whole(format!("is larger than {limit} bytes")));
    }
    let value: Value = serde_json::from_slice(bytes).map_err(|error| whole(error.to_string()))?;
    validator.validate(&value)
}

fn details(faults: &SchemaViolations) -> RawJson {
    RawJson::from_value(&serde_json::json!({"faults": faults.list, "hasMore": faults.has_more}))
}

struct ValidateReply {
    reply: Reply,
    server: Arc<str>,
    tool: Arc<KnownTool>,
}

impl ReplySource for ValidateReply {
    fn poll_event(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<ReplyEvent> {
        let event = std::task::ready!(self.reply.poll_event(context));
        Poll::Ready(match event {
            ReplyEvent::Done(outcome) => ReplyEvent::Done(checked(&self.server, &self.tool, outcome)),
            note => note,
        })
    }

    fn is_in_line(&self) -> bool {
        self.reply.is_in_line()
    }
}

/// The outcome itself, or the fault in its place.
fn checked(server: &str, tool: &KnownTool, outcome: Outcome) -> Outcome {
    let Outcome::Complete(complete) = &outcome else { return outcome };
    let Some(fault) = check_result(tool, &complete.body) else { return outcome };
    if tool.policy.results == ValidationMode::Enforce {
        return Outcome::fault(fault.on_server(server));
    }
    if tool.may_complain(Instant::now()) {
        tracing::warn!(target: CHECKING, %server, tool = tool.name(), "{}", fault.message);
    }
    outcome
}

/// What is wrong with a result. A tool that failed need not give what it promises.
fn check_result(tool: &KnownTool, body: &JsonObject) -> Option<Fault> {
    // The schema describes success; an error result is free text.
    if is_error(body) {
        return None;
    }
    let fault = |message: String| {
        let fault = Fault::new(FaultCode::InvalidResponse, message).on_tool(tool.name()).at(CallStage::Validate);
        fault.sent(SentState::Unknown).with_hint("the tool ran; only its answer is not what it promises")
    };
    let Some(content) = body.get_bytes("structuredContent") else {
        // The result of a task comes later.
        if task::created(body).is_some() {
            return None;
        }
        return Some(fault(format!("{:?} promises structured content and gave none", tool.name())));
    };
    let faults = check(tool.output()?, content).err().filter(|faults| !faults.is_undecided)?;
    let message = format!("the result of {:?} does not fit its schema: {faults}", tool.name());
    Some(fault(message).with_details(details(&faults)))
}

#[cfg(test)]
mod tests;
