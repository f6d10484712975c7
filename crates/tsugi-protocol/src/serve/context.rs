//! What a handler knows about its call besides the arguments, and how it sends notes while it works.

use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::answer::{Call, Caller};
use crate::json::{JsonObject, ObjectWriter, RawJson};
use crate::mcp::log::LogLevel;
use crate::mcp::meta::RequestMeta;
use crate::mcp::{ClientCapabilities, Method};
use crate::rpc::RpcNotification;

use super::error::HandlerError;
use super::handler_reply::NoteQueue;
use super::input::ElicitationAnswer;
use super::subscription::ChangeNotifier;

/// One call, as its handler sees it. Cheap to clone.
#[derive(Debug, Clone)]
pub struct HandlerContext {
    caller: Caller,
    meta: Arc<RequestMeta>,
    responses: Option<JsonObject>,
    state: Option<String>,
    notes: Option<Arc<NoteQueue>>,
    can_log: bool,
    notifier: ChangeNotifier,
}

impl HandlerContext {
    pub(super) fn new(call: &Call, notifier: ChangeNotifier, can_log: bool) -> Self {
        let wants_notes = call.meta.progress_token.is_some() || (can_log && call.meta.log_level.is_some());
        Self {
            caller: call.caller.clone(),
            meta: Arc::new(call.meta.clone()),
            responses: call.params.get_object("inputResponses"),
            state: call.params.get_str("requestState").map(|state| state.into_owned()),
            notes: wants_notes.then(Arc::default),
            can_log,
            notifier,
        }
    }

    pub(super) fn notes(&self) -> Option<Arc<NoteQueue>> {
        self.notes.clone()
    }

    /// On whose behalf the call is.
    pub fn caller(&self) -> &Caller {
        &self.caller
    }

    /// What the request says about itself: the client, and entries of others such as `traceparent`.
    pub fn meta(&self) -> &RequestMeta {
        &self.meta
    }

    /// What the client can do.
    pub fn capabilities(&self) -> &ClientCapabilities {
        &self.meta.client.capabilities
    }

    /// Announces changes to everyone who listens.
    pub fn notifier(&self) -> &ChangeNotifier {
        &self.notifier
    }

    /// Fails with −32021 when the client cannot be asked this: `elicitation/create` (a form),
    /// `sampling/createMessage` or `roots/list`.
    pub fn require(&self, question: &Method) -> Result<(), HandlerError> {
        match self.capabilities().missing_for(question, None) {
            None => Ok(()),
            Some(required) => Err(HandlerError::missing_capability(&required)),
        }
    }

    /// True when the caller wants progress, for handlers that would count only for that.
    pub fn wants_progress(&self) -> bool {
        self.meta.progress_token.is_some()
    }

    /// Reports progress, if the caller asked for it. `done` must grow from one report to the next.
    pub fn progress(&self, done: f64, total: Option<f64>, message: Option<&str>) {
        let (Some(token), Some(notes)) = (&self.meta.progress_token, &self.notes) else { return };
        let mut params = ObjectWriter::with_capacity(128);
        params.raw("progressToken", token).raw("progress", &RawJson::from_value(&done));
        if let Some(total) = total {
            params.raw("total", &RawJson::from_value(&total));
        }
        if let Some(message) = message {
            params.string("message", message);
        }
        notes.push(RpcNotification::new(Method::Progress, Some(params.finish())));
    }

    /// Tells the caller a log line, if the caller asked for that level and the server was built with logging.
    pub fn log(&self, level: LogLevel, logger: Option<&str>, data: impl Serialize) {
        let Some(notes) = self.notes.as_ref().filter(|_| self.logs_at(level)) else { return };
        let mut params = ObjectWriter::with_capacity(128);
        params.string("level", level.as_str());
        if let Some(logger) = logger {
            params.string("logger", logger);
        }
        params.raw("data", &RawJson::from_value(&data));
        notes.push(RpcNotification::new(Method::LogMessage, Some(params.finish())));
    }

    fn logs_at(&self, level: LogLevel) -> bool {
        self.can_log && self.meta.log_level.is_some_and(|wanted| level >= wanted)
    }

    /// The answers to the questions of an earlier [`NeedInput`](super::NeedInput); `None` on a first call.
    pub fn input_responses(&self) -> Option<&JsonObject> {
        self.responses.as_ref()
    }

    /// The answer under this key, raw.
    pub fn response(&self, key: &str) -> Option<RawJson> {
        self.responses.as_ref()?.get(key)
    }

    /// What the user did with the form asked under this key; `None` when there is no answer yet.
    pub fn elicited<T: DeserializeOwned>(&self, key: &str) -> Result<Option<ElicitationAnswer<T>>, HandlerError> {
        self.response(key).map(|answer| ElicitationAnswer::of(&answer)).transpose()
    }

    /// The state given with an earlier [`NeedInput`](super::NeedInput), as the client brought it back.
    pub fn state(&self) -> Option<&str> {
        self.state.as_deref()
    }
}
