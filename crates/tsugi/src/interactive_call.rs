//! Runs one call for a person: shows progress and log lines, and answers the questions of the server.

mod call_notes;
mod question;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tsugi_client::Server;
use tsugi_protocol::answer::{Answer, Call, CompletedResult, Fault, FaultCode, InputRequired, Outcome, ReplyEvent};
use tsugi_protocol::json::RawJson;
use tsugi_protocol::mcp::ClientProfile;
use tsugi_protocol::mcp::input::InputResponses;
use tsugi_protocol::mcp::log::LogLevel;
use tsugi_protocol::mcp::meta::RequestMeta;

use crate::app::{App, profile};
use crate::failure::CommandFailure;
use call_notes::CallNotes;

pub(crate) use question::roots;

/// A server that asks more often than this is taken to ask endlessly.
const MOST_ROUNDS: usize = 50;

/// How calls are run and their questions answered.
pub(crate) struct InteractiveCall<'a> {
    app: &'a App,
    /// The answer to `roots/list`.
    roots: Vec<PathBuf>,
    /// How long a call may be silent, if the command line limits it.
    timeout: Option<Duration>,
    profile: Arc<ClientProfile>,
    is_interactive: bool,
}

impl<'a> InteractiveCall<'a> {
    /// With the person at the terminal, if there is one.
    pub(crate) fn new(app: &'a App) -> Self {
        InteractiveCall {
            app,
            roots: Vec::new(),
            timeout: None,
            profile: profile(false),
            is_interactive: app.is_interactive(),
        }
    }

    /// Without a person: questions are declined.
    pub(crate) fn non_interactive(app: &'a App) -> Self {
        InteractiveCall { is_interactive: false, ..InteractiveCall::new(app) }
    }

    pub(crate) fn with_roots(mut self, roots: Vec<PathBuf>) -> Self {
        self.profile = profile(!roots.is_empty());
        self.roots = roots;
        self
    }

    pub(crate) fn with_timeout(mut self, timeout: Option<Duration>) -> Self {
        self.timeout = timeout;
        self
    }

    pub(crate) fn is_interactive(&self) -> bool {
        self.is_interactive
    }

    /// Runs a call about `subject`. Dropping the future cancels it.
    pub(crate) async fn run_to_result(
        &self,
        server: &Server,
        subject: &str,
        call: Call,
    ) -> Result<CompletedResult, CommandFailure> {
        match self.run_to_outcome(server, subject, call).await? {
            Outcome::Complete(complete) => Ok(complete),
            Outcome::Failed(failure) => Err(CommandFailure::of_call(subject, failure)),
            Outcome::InputRequired(_) => Err(never_stops(server).into()),
        }
    }

    /// As [`InteractiveCall::finish`], with the failure of a call as it came.
    pub(crate) async fn run_to_outcome(
        &self,
        server: &Server,
        subject: &str,
        mut call: Call,
    ) -> Result<Outcome, CommandFailure> {
        call.meta = self.meta();
        call.options.timeout = self.timeout;
        for _ in 0..MOST_ROUNDS {
            match self.round(server, subject, call.clone()).await {
                Outcome::InputRequired(asked) => call = self.answer(server, call, &asked).await?,
                outcome => return Ok(outcome),
            }
        }
        Ok(Outcome::fault(never_stops(server)))
    }

    fn meta(&self) -> RequestMeta {
        let level = if self.app.common.quiet { LogLevel::Error } else { LogLevel::Info };
        RequestMeta {
            log_level: Some(if self.app.common.verbose > 0 { LogLevel::Debug } else { level }),
            progress_token: Some(RawJson::literal("1")),
            ..RequestMeta::of_client(self.profile.clone())
        }
    }

    async fn round(&self, server: &Server, subject: &str, call: Call) -> Outcome {
        let mut notes = CallNotes::new(&self.app.output, subject, &call.meta);
        let mut reply = server.answer(call);
        loop {
            match reply.next().await {
                ReplyEvent::Note(note) => notes.show(&note),
                ReplyEvent::Done(outcome) => return outcome,
            }
        }
    }

    /// Answers all questions of a round and returns the retry with the answers.
    async fn answer(&self, server: &Server, call: Call, asked: &InputRequired) -> Result<Call, CommandFailure> {
        let mut answers = InputResponses::default();
        for question in asked.questions() {
            answers.add(&question.key, &self.answer_one(server, &question).await?);
        }
        let answers = asked.requests.is_some().then(|| answers.finish());
        Ok(call.retry_with(answers.as_ref(), asked.state.as_deref()))
    }
}

fn never_stops(server: &Server) -> Fault {
    Fault::new(FaultCode::InvalidResponse, "the server asks endlessly").on_server(server.name())
}
