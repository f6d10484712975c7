//! One request from its arrival to its answer.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::act::Flow;
use super::message::{Body, CAPABILITIES_KEY, Request, outgoing, written};
use super::output::Voice;
use super::server::{Server, Session};
use crate::script::Form;

/// How often a turn that waits looks whether its caller is still there.
const GLANCE: Duration = Duration::from_millis(5);

/// A request that is being answered.
pub(super) struct Turn {
    pub(super) server: Arc<Server>,
    pub(super) session: Arc<Session>,
    pub(super) request: Request,
    pub(super) voice: Arc<dyn Voice>,
    pub(super) form: Option<Form>,
    pub(super) half_then_exit: Option<i32>,
}

impl Turn {
    pub(super) fn new(server: &Arc<Server>, session: &Arc<Session>, request: Request, voice: Arc<dyn Voice>) -> Self {
        Self { server: server.clone(), session: session.clone(), request, voice, form: None, half_then_exit: None }
    }

    /// Does what the script wants, then answers, then does what the script wants after it.
    pub(super) fn run(mut self) {
        let method = self.request.method.clone();
        let tool = self.request.tool().map(str::to_owned);
        for action in self.server.actions_at(&method, tool.as_deref(), false) {
            if self.act(&action) == Flow::Ended {
                return;
            }
        }
        let Some(body) = self.answer() else { return };
        self.send(&body);
        for action in self.server.actions_at(&method, tool.as_deref(), true) {
            if self.act(&action) == Flow::Ended {
                return;
            }
        }
    }

    /// Sends an answer, in the form that the script wants.
    pub(super) fn send(&self, body: &Body) {
        let messages = written(&self.request.id, body, self.form);
        if let Some(code) = self.half_then_exit {
            self.voice.half(&messages[0]);
            self.end(code);
            return;
        }
        self.server.journal.write("answered", self.request.id.clone());
        for (index, message) in messages.iter().enumerate() {
            match index + 1 == messages.len() {
                true => self.voice.last(message),
                false => self.voice.note(message),
            }
        }
    }

    /// True when nobody waits for the answer any more.
    pub(super) fn is_over(&self) -> bool {
        if self.server.is_cancelled(&self.request.id) || self.server.is_closing.load(Ordering::Acquire) {
            return true;
        }
        let is_gone = self.voice.is_gone();
        if is_gone {
            self.server.journal.write("gone", self.request.id.clone());
        }
        is_gone
    }

    /// Works for so long; false when the caller gave up before the end.
    pub(super) fn work_for(&self, time: Duration) -> bool {
        let end = Instant::now() + time;
        while Instant::now() < end {
            if self.is_over() {
                return false;
            }
            std::thread::sleep(GLANCE.min(end - Instant::now().min(end)));
        }
        !self.is_over()
    }

    /// Sends progress, if the request wants it.
    pub(super) fn progress(&self, done: usize, total: Option<usize>) {
        let Some(token) = self.request.meta("progressToken") else { return };
        let mut params = json!({"progressToken": token, "progress": done});
        if let Some(total) = total {
            params["total"] = total.into();
        }
        self.voice.note(&outgoing(None, "notifications/progress", &params));
    }

    /// Sends a request to the client, with the argument `aside` outside of the call's own stream; its answer when it is
    /// waited for and comes.
    pub(super) fn ask(&self, method: &str, params: &Value, wait: bool) -> Option<Value> {
        let (id, answers) = self.server.new_ask();
        self.server.journal.write("asked", json!({"id": id, "method": method}));
        let aside = self.session.voice.lock().clone().filter(|_| self.request.params["arguments"]["aside"] == true);
        aside.as_ref().unwrap_or(&self.voice).note(&outgoing(Some(id), method, params));
        if wait { self.answer_from(&answers) } else { None }
    }

    /// Asks for all of these at once; gives the answers in the same order.
    pub(super) fn ask_at_once(&self, questions: &[(&str, &str, Value)]) -> Option<Vec<Value>> {
        let asks: Vec<_> = questions.iter().map(|_| self.server.new_ask()).collect();
        let texts =
            asks.iter().zip(questions).map(|((id, _), (_, method, params))| outgoing(Some(*id), method, params));
        self.voice.notes(&mut texts.collect::<Vec<_>>().into_iter());
        asks.iter().map(|(_, answers)| self.answer_from(answers)).collect()
    }

    fn answer_from(&self, answers: &Receiver<Value>) -> Option<Value> {
        while !self.is_over() {
            match answers.recv_timeout(GLANCE) {
                Ok(answer) => return Some(answer),
                Err(std::sync::mpsc::RecvTimeoutError::Timeout) => {}
                Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => return None,
            }
        }
        None
    }

    /// What the client can do: as the request says, or as the session began.
    pub(super) fn client_can(&self, capability: &str) -> bool {
        match self.request.meta(CAPABILITIES_KEY) {
            Some(capabilities) => capabilities.get(capability).is_some(),
            None => self.session.client.lock().capabilities.get(capability).is_some(),
        }
    }
}
