//! Waits for tasks on behalf of callers that do not know them, so that tools which always answer with a task can be
//! called by everyone.
//!
//! A modern caller that declares tasks gets the task itself, and one that does not is refused by the server, as the
//! specification wants it. For callers of earlier revisions, REST and programs, tasks are declared here, and a task in
//! place of a result is looked at until it ends. Its questions become questions of the call.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tsugi_protocol::answer::{
    Answer, Call, CallFailure, CompletedResult, Fault, FaultCode, InputRelease, InputRequired, NoteSink, Outcome, Reply,
};
use tsugi_protocol::json::{JsonObject, ObjectWriter, RawJson};
use tsugi_protocol::mcp::meta::{PROGRESS_TOKEN, RequestMeta};
use tsugi_protocol::mcp::task::{self, TASK_ID, TaskState};
use tsugi_protocol::mcp::{ClientProfile, Era, Method, extension};
use tsugi_protocol::rpc::RpcNotification;

use crate::config::ManagerOptions;
use crate::seal::{SealedState, StateSealer, WaitedTask};
use crate::tool_table::ToolTable;

/// How often a task is looked at, whatever its server suggests.
const SHORTEST: Duration = Duration::from_millis(50);
const LONGEST: Duration = Duration::from_secs(30);
/// How often when the server suggests nothing.
const USUAL: Duration = Duration::from_secs(1);
/// How often the caller gets a sign of life between two looks: a deadline on silence may be shorter than the interval.
const BEAT: Duration = Duration::from_secs(1);
/// How many looks in a row may fail before the call does. A server that starts again may still have the task.
const FAILED_LOOKS: u32 = 3;
/// How long the server may take to receive a cancellation.
const CANCEL_LIMIT: Duration = Duration::from_secs(5);

/// Waits for the tasks of one server. Servers without tasks cost one look at a flag.
#[derive(Clone)]
pub(crate) struct TaskWaitLayer {
    inner: Arc<dyn Answer>,
    tools: Arc<ToolTable>,
    shared: Arc<TaskWaitContext>,
}

struct TaskWaitContext {
    server: Arc<str>,
    sealer: Arc<StateSealer>,
    input_lifetime: Duration,
    /// The last client, as it was and with tasks declared: most calls in a row have the same one.
    last_client: Mutex<Option<(Arc<ClientProfile>, Arc<ClientProfile>)>>,
}

impl TaskWaitLayer {
    pub(crate) fn new(
        inner: Arc<dyn Answer>,
        server: Arc<str>,
        tools: Arc<ToolTable>,
        options: &ManagerOptions,
    ) -> Self {
        let shared = TaskWaitContext {
            server,
            sealer: options.sealer.clone(),
            input_lifetime: options.input_lifetime,
            last_client: Mutex::default(),
        };
        Self { inner, tools, shared: Arc::new(shared) }
    }

    /// The call of a client that takes tasks.
    fn declared(&self, mut call: Call) -> Call {
        let mut last = self.shared.last_client.lock();
        let client = match &*last {
            Some((known, declared)) if Arc::ptr_eq(known, &call.meta.client) => declared.clone(),
            _ => {
                let capabilities = call.meta.client.capabilities.with_extension(extension::TASKS);
                let declared = Arc::new(ClientProfile { capabilities, ..(*call.meta.client).clone() });
                *last = Some((call.meta.client.clone(), declared.clone()));
                declared
            }
        };
        drop(last);
        call.meta.client = client;
        call
    }

    /// The task that a retry with answers belongs to.
    fn waited_task(&self, call: &Call) -> Option<WaitedTask> {
        let state = call.params.get_str("requestState")?;
        match self.shared.sealer.open(&self.shared.server, call, &state) {
            Ok(SealedState::Task(waited)) => Some(waited),
            _ => None,
        }
    }
}

/// Whether tasks are waited for in the place of this caller.
fn is_waited_for(call: &Call) -> bool {
    let takes_tasks = || call.meta.client.capabilities.has_extension(extension::TASKS);
    match call.options.era {
        Some(Era::Modern) => false,
        Some(Era::Legacy) => true,
        None => !takes_tasks(),
    }
}

impl Answer for TaskWaitLayer {
    fn answer(&self, call: Call) -> Reply {
        if !self.tools.has_tasks() || call.method != Method::ToolsCall || !is_waited_for(&call) {
            return self.inner.answer(call);
        }
        let waited = self.waited_task(&call);
        let layer = self.clone();
        Reply::from_noted_future(|notes| async move {
            let original = call.clone();
            let call = layer.declared(call);
            let mut wait = match waited {
                Some(waited) => {
                    let responses = call.params.get("inputResponses");
                    let mut wait = TaskWait::new(&layer, &call, original, waited, notes, None);
                    if let Err(outcome) = wait.update(responses).await {
                        return outcome;
                    }
                    wait
                }
                None => {
                    let outcome = layer.inner.answer(call.clone()).outcome_with(|note| notes.push(note)).await;
                    let Outcome::Complete(complete) = &outcome else { return outcome };
                    let Some(id) = task::created(&complete.body) else { return outcome };
                    let waited = WaitedTask { id, answered: Vec::new() };
                    TaskWait::new(&layer, &call, original, waited, notes, task::poll_interval(&complete.body))
                }
            };
            wait.run().await
        })
    }
}

/// The wait for one task. Dropping it before the end cancels the task.
struct TaskWait {
    inner: Arc<dyn Answer>,
    shared: Arc<TaskWaitContext>,
    /// As the caller made it. Its state is bound to that.
    original: Call,
    /// Says who asks, in every question about the task.
    meta: RequestMeta,
    task: WaitedTask,
    interval: Option<Duration>,
    looks: u64,
    notes: NoteSink,
    is_over: bool,
}

impl TaskWait {
    fn new(
        layer: &TaskWaitLayer,
        call: &Call,
        original: Call,
        task: WaitedTask,
        notes: NoteSink,
        interval: Option<Duration>,
    ) -> Self {
        let meta = RequestMeta { progress_token: None, log_level: None, ..call.meta.clone() };
        let (inner, shared) = (layer.inner.clone(), layer.shared.clone());
        Self { inner, shared, original, meta, task, interval, looks: 0, notes, is_over: false }
    }

    fn call(&self, method: Method, responses: Option<&RawJson>) -> Call {
        let mut params = ObjectWriter::with_capacity(128);
        params.string(TASK_ID, &self.task.id);
        if let Some(responses) = responses {
            params.raw("inputResponses", responses);
        }
        let mut call = Call::new(method, params.finish_object()).from_caller(self.original.caller.clone());
        call.meta = self.meta.clone();
        call.options = self.original.options.clone();
        call
    }

    /// Brings the caller's answers to the task.
    async fn update(&mut self, responses: Option<RawJson>) -> Result<(), Outcome> {
        let Some(responses) = responses.as_ref().and_then(JsonObject::of).filter(|all| !all.is_empty()) else {
            return Ok(());
        };
        match self.inner.answer(self.call(Method::TasksUpdate, Some(&responses.raw()))).outcome().await {
            Outcome::Complete(_) => {
                let keys = responses.members().iter().map(|member| responses.key(*member).into_owned());
                self.task.answered.extend(keys);
                Ok(())
            }
            failed => {
                self.is_over = true;
                Err(failed)
            }
        }
    }

    /// Looks at the task until it ends or asks.
    async fn run(&mut self) -> Outcome {
        let mut failed = 0;
        loop {
            self.pause(self.interval.unwrap_or(USUAL).clamp(SHORTEST, LONGEST)).await;
            let outcome = self.inner.answer(self.call(Method::TasksGet, None)).outcome().await;
            let complete = match outcome {
                Outcome::Complete(complete) => complete,
                Outcome::Failed(CallFailure::Fault(fault)) if fault.retryable && failed < FAILED_LOOKS => {
                    failed += 1;
                    continue;
                }
                other => return self.end(other),
            };
            failed = 0;
            self.interval = task::poll_interval(&complete.body).or(self.interval);
            if let Some(outcome) = self.read(complete) {
                return outcome;
            }
        }
    }

    /// Waits until the next look, with signs of life.
    async fn pause(&mut self, interval: Duration) {
        let mut left = interval;
        while left > BEAT {
            tokio::time::sleep(BEAT).await;
            left -= BEAT;
            self.report(None);
        }
        tokio::time::sleep(left).await;
    }

    /// The outcome of the call, when the task has come so far.
    fn read(&mut self, complete: CompletedResult) -> Option<Outcome> {
        match TaskState::of(&complete.body) {
            Some(TaskState::Working) => {
                self.report(Some(&complete.body));
                None
            }
            Some(TaskState::InputRequired(requests)) => {
                let mut open = ObjectWriter::with_capacity(requests.bytes().len());
                // What was answered may still be listed for a while.
                open.members(&requests, |key| !self.task.answered.iter().any(|answered| answered == key));
                if open.is_empty() {
                    self.report(Some(&complete.body));
                    return None;
                }
                Some(self.ask(open.finish_object()))
            }
            Some(TaskState::Completed(body)) => Some(self.end(Outcome::Complete(CompletedResult { body, ..complete }))),
            Some(TaskState::Failed(error)) => Some(self.end(Outcome::error(*error))),
            Some(TaskState::Cancelled) => {
                let fault = Fault::new(FaultCode::Cancelled, "the server cancelled the task");
                Some(self.end(Outcome::fault(fault.on_server(&self.shared.server))))
            }
            None => {
                let fault =
                    Fault::new(FaultCode::InvalidResponse, "the server's answer does not say how the task stands");
                Some(self.end(Outcome::fault(fault.on_server(&self.shared.server))))
            }
        }
    }

    fn end(&mut self, outcome: Outcome) -> Outcome {
        self.is_over = true;
        outcome
    }

    /// A sign of life for the caller and for the deadline.
    fn report(&mut self, task: Option<&JsonObject>) {
        self.looks += 1;
        let mut params = ObjectWriter::with_capacity(128);
        let token = self.original.meta.progress_token.clone().unwrap_or_else(|| RawJson::literal("0"));
        params.raw(PROGRESS_TOKEN, &token).number("progress", self.looks);
        if let Some(message) = task.and_then(|task| task.get_lossy("statusMessage")) {
            params.string("message", &message);
        }
        self.notes.push(RpcNotification::new(Method::Progress, Some(params.finish())));
    }

    /// Puts the task's questions to the caller. The wait goes on with the answers, in another call.
    fn ask(&mut self, requests: JsonObject) -> Outcome {
        self.is_over = true;
        let (state, lifetime) = (SealedState::Task(self.task.clone()), self.shared.input_lifetime);
        let state = self.shared.sealer.seal(&self.shared.server, &self.original, state, lifetime);
        let cancel = CancelOrder { inner: self.inner.clone(), call: self.call(Method::TasksCancel, None) };
        Outcome::InputRequired(InputRequired {
            requests: Some(Box::new(requests)),
            state: Some(state),
            rest: Box::new(JsonObject::empty()),
            release: Some(InputRelease::new(move || cancel.clone().send())),
        })
    }
}

impl Drop for TaskWait {
    fn drop(&mut self) {
        if !self.is_over {
            CancelOrder { inner: self.inner.clone(), call: self.call(Method::TasksCancel, None) }.send();
        }
    }
}

/// The order to end a task that no caller waits for.
#[derive(Clone)]
struct CancelOrder {
    inner: Arc<dyn Answer>,
    call: Call,
}

impl CancelOrder {
    fn send(self) {
        // Without a runtime the program ends, and its servers with it.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(tokio::time::timeout(CANCEL_LIMIT, self.inner.answer(self.call).outcome()));
        }
    }
}

#[cfg(test)]
mod tests;
