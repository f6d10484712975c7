//! One call on its way from the protocol to an action and back: caller, arguments, answer.

use std::collections::BTreeSet;
use std::sync::Arc;

use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use tokio::sync::OnceCell;
use tsugi_protocol::json::{JsonObject, ObjectWriter, RawJson};
use tsugi_protocol::mcp::{self, ClientProfile};
use tsugi_protocol::rpc::{RpcError, code};
use tsugi_protocol::serve::{HandlerContext, HandlerError, ToolOutput};

use super::watch::EventCursor;
use super::{Lang, Liveness, PmServerSettings, approval, text};
use crate::action::caller::ActionCaller;
use crate::action::presence::LeaveSession;
use crate::action::search::GetNotifications;
use crate::action::session::StartSession;
use crate::action::{Action, ErasedAction, Pm};
use crate::domain::fault::{Code, PmFault};
use crate::domain::id::SessionId;
use crate::domain::notice::Notice;
use crate::domain::session::Era;

/// What every handler shares.
pub(super) struct PmService {
    pub(super) pm: Pm,
    pub(super) settings: PmServerSettings,
    /// The session that a legacy client of this process was given when it came.
    first_session: OnceCell<SessionId>,
    /// The session it began by itself since then, which its calls mean from then on.
    begun_session: Mutex<Option<SessionId>>,
    /// Sessions that calls through here began or used.
    seen: Mutex<BTreeSet<SessionId>>,
    /// From where those who watch are told of changes.
    pub(super) place: EventCursor,
}

impl PmService {
    pub(super) fn new(pm: Pm, settings: PmServerSettings) -> Arc<Self> {
        Arc::new(Self {
            pm,
            settings,
            first_session: OnceCell::new(),
            begun_session: Mutex::default(),
            seen: Mutex::default(),
            place: EventCursor::default(),
        })
    }

    pub(super) fn lang(&self) -> Lang {
        self.settings.lang
    }

    /// Every session that calls through here began or used.
    pub(super) fn seen(&self) -> Vec<SessionId> {
        self.seen.lock().iter().cloned().collect()
    }

    pub(super) async fn caller(&self, context: &HandlerContext) -> Result<ActionCaller, PmFault> {
        let caller = self.settings.actor.caller(&self.pm, context.caller()).await?;
        self.caller_of(caller, &context.meta().client).await
    }

    /// An agent with a client. A legacy client with a dedicated process has a session from its first call on.
    pub(super) async fn caller_of(
        &self,
        mut caller: ActionCaller,
        client: &ClientProfile,
    ) -> Result<ActionCaller, PmFault> {
        let info = client.info.as_ref().and_then(JsonObject::of);
        let said = |key: &str| info.as_ref().and_then(|info| info.get_str(key)).map(|text| text.into_owned());
        // Decides whether calls without a session use the one of the process.
        caller.era = era_of(client);
        caller.client_name = said("name");
        caller.client_version = said("version");
        caller.host = self.settings.host.clone().filter(|_| self.settings.liveness == Liveness::Process);
        if caller.era == Era::Legacy && self.settings.host.is_some() {
            // Two first calls at once must not start two sessions.
            let first = self.first_session.get_or_try_init(|| self.begin(&caller)).await?;
            caller.default_session = Some(self.begun_session.lock().clone().unwrap_or_else(|| first.clone()));
        }
        Ok(caller)
    }

    async fn begin(&self, caller: &ActionCaller) -> Result<SessionId, PmFault> {
        let started = self.pm.perform(caller, StartSession::default()).await?;
        self.seen.lock().insert(started.session_id.clone());
        Ok(started.session_id)
    }

    /// Does an action and gives what it answers.
    pub(super) async fn ask<A: Action>(&self, context: &HandlerContext, action: A) -> Result<A::Output, PmFault> {
        let caller = self.caller(context).await?;
        self.pm.perform(&caller, action).await
    }

    /// A tool call: reads the arguments, does the action, writes the answer.
    pub(super) async fn call(&self, tool: &PmTool, arguments: JsonObject, context: HandlerContext) -> ToolAnswer {
        // Arguments first: a call that cannot be read starts no session.
        let action = (tool.read)(&tool.known, &arguments).map_err(told)?;
        let mut caller = self.caller(&context).await.map_err(told)?;
        // The answer to an earlier question comes back with the repeated call.
        caller.is_approved = approval::is_given(self, tool.name, &arguments, &context)?;
        let done = self.pm.perform_with_notices(&caller, action).await;
        let (output, notices) = done.map_err(|fault| approval::ask(self, tool.name, &arguments, &context, fault))?;
        let answer = object_of(output.to_json());
        if tool.name == StartSession::NAME {
            self.follow(&caller, &answer).await;
        // A call that names its session does not change the default one.
        } else if arguments.get("session_id").is_none() {
            self.adopt(&caller, &answer);
        }
        Ok(self.answer(&caller, answer, &notices))
    }

    /// A legacy client that starts a session means that one from then on, even when it does not name it: so agents
    /// read `start_session`, and what they claim there is not refused to their next call. The session it leaves ends,
    /// unless it holds something.
    async fn follow(&self, caller: &ActionCaller, answer: &Map<String, Value>) {
        let (Some(left), Some(begun)) = (&caller.default_session, session_of(answer)) else { return };
        *self.begun_session.lock() = Some(begun);
        let leave = LeaveSession { session_id: left.clone() };
        if let Err(fault) = self.pm.perform(caller, leave).await {
            tracing::warn!(%fault, "the session that was left stays open");
        }
    }

    /// A legacy client whose session was over was given a new one by its call, and means that from then on.
    fn adopt(&self, caller: &ActionCaller, answer: &Map<String, Value>) {
        let used = session_of(answer).filter(|used| caller.default_session.as_ref().is_some_and(|left| left != used));
        if let Some(used) = used {
            *self.begun_session.lock() = Some(used);
        }
    }

    /// The one tool that waits.
    pub(super) async fn wait(&self, known: &[String], arguments: JsonObject, context: HandlerContext) -> ToolAnswer {
        let wish: GetNotifications = read(known, &arguments).map_err(told)?;
        let caller = self.caller(&context).await.map_err(told)?;
        let output = self.pm.wait_for_notifications(&caller, wish).await.map_err(told)?;
        Ok(self.answer(&caller, object_of(json!(output)), &[]))
    }

    fn answer(&self, caller: &ActionCaller, mut answer: Map<String, Value>, notices: &[Notice]) -> ToolOutput {
        // A legacy client learns its session from every answer.
        if let Some(session) = &caller.default_session {
            answer.entry("session_id").or_insert_with(|| json!(session));
        }
        self.remember(&answer);
        if !notices.is_empty() {
            answer.insert("notices".to_owned(), json!(notices));
        }
        written(answer)
    }

    fn remember(&self, answer: &Map<String, Value>) {
        self.seen.lock().extend(session_of(answer));
    }
}

/// A tool, from the arguments it takes to the action they ask for.
pub(super) struct PmTool {
    pub(super) name: &'static str,
    /// The arguments it knows.
    pub(super) known: Vec<String>,
    pub(super) read: ReadArguments,
}

/// Reads the arguments of a call, given those that the tool knows.
pub(super) type ReadArguments = fn(&[String], &JsonObject) -> Result<ErasedAction, PmFault>;

/// How a tool call ends.
pub(super) type ToolAnswer = Result<ToolOutput, HandlerError>;

fn era_of(client: &ClientProfile) -> Era {
    match client.version.era() {
        mcp::Era::Legacy => Era::Legacy,
        mcp::Era::Modern => Era::Modern,
    }
}

/// The session that an answer names.
fn session_of(answer: &Map<String, Value>) -> Option<SessionId> {
    SessionId::parse(answer.get("session_id")?.as_str()?).ok()
}

/// Structured content is an object, even when an action returns a list or a word.
fn object_of(output: Value) -> Map<String, Value> {
    match output {
        Value::Object(object) => object,
        other => Map::from_iter([("result".to_owned(), other)]),
    }
}

fn written(answer: Map<String, Value>) -> ToolOutput {
    let answer = Value::Object(answer);
    ToolOutput::text(text::outline(&answer)).with_structured(RawJson::from(answer))
}

/// Reads arguments. Null means absent, as some clients write it; what the schema does not know is refused here, since
/// not every record can refuse it by itself.
pub(super) fn read<A: DeserializeOwned>(known: &[String], arguments: &JsonObject) -> Result<A, PmFault> {
    let mut members = ObjectWriter::with_capacity(arguments.bytes().len());
    for member in arguments.members() {
        let (key, value) = (arguments.key(*member), arguments.value(*member));
        // Refused by name: a misspelt optional argument would be ignored in silence.
        if !known.iter().any(|one| *one == key) {
            return Err(PmFault::invalid(format!("unknown argument `{key}`")).with("known", known));
        }
        if !value.is_null() {
            members.raw(&key, &value);
        }
    }
    members.finish().to().map_err(|error| {
        // The position is that in our own rewritten text, and means nothing to the caller.
        let text = error.to_string();
        PmFault::invalid(text.split(" at line ").next().unwrap_or(&text))
    })
}

/// A refusal that a model can read and act on; only a defect is an error of the protocol.
pub(super) fn told(fault: PmFault) -> HandlerError {
    if fault.code == Code::Internal {
        return HandlerError::internal(fault.message);
    }
    let hint = if fault.hint.is_empty() { String::new() } else { format!("\nhint: {}", fault.hint) };
    let output = ToolOutput::error(format!("{}: {}{hint}", fault.code, fault.message));
    HandlerError::Failed(Box::new(output.with_structured(RawJson::from(json!({"error": fault.to_json()})))))
}

/// The same outside of tools, where an error is part of the protocol.
pub(super) fn refused(fault: &PmFault) -> HandlerError {
    if fault.code == Code::Internal {
        return HandlerError::internal(&fault.message);
    }
    RpcError::with_data(code::INVALID_PARAMS, &fault.message, Some(&RawJson::from(fault.to_json()))).into()
}
