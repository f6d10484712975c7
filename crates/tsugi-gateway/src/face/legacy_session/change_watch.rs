//! What a legacy client receives without a request: changes, from one listening call that follows its wishes, and the
//! question for its roots after it said that they have changed.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Sleep;
use tsugi_protocol::answer::{CallOptions, Caller, Outcome, ReplyEvent};
use tsugi_protocol::json::{ObjectWriter, RawJson};
use tsugi_protocol::mcp::Method;
use tsugi_protocol::mcp::subscription::SubscriptionFilter;
use tsugi_protocol::rpc::{RequestId, RpcNotification, RpcRequest};

use super::session::LegacySession;
use super::turn::LegacyTurn;
use crate::face::running_call::{RunningCall, TurnOutput};
use tsugi_protocol::era::notification;

/// How long after the end of a listening call the next one is tried.
const PAUSE: Duration = Duration::from_secs(1);

/// Watches for one session while it is polled. Dropping it ends the watching.
pub(crate) struct LegacyChangeWatch {
    conversation: Arc<LegacySession>,
    /// The sender of the request that the changes go to, in this session.
    caller: Caller,
    wish: Option<u64>,
    state: ChangeWatchState,
    /// Passes a change of the client's roots on, with its number.
    roots: Option<(u64, LegacyTurn)>,
}

enum ChangeWatchState {
    Listening(RunningCall),
    /// The call ended; try again after a while.
    Resting(Pin<Box<Sleep>>),
    /// Nothing to watch, or no server that reports changes: wait for another wish.
    Idle,
}

impl LegacyChangeWatch {
    /// Shows what this caller may see, who need not be the one that opened the session.
    pub(crate) fn new(conversation: Arc<LegacySession>, caller: &Caller) -> Self {
        let caller = caller.in_session_of(conversation.opener());
        Self { conversation, caller, wish: None, state: ChangeWatchState::Idle, roots: None }
    }

    /// What a client that was away may have missed, as changes: it will look again.
    pub(crate) fn catch_up(&self) -> Vec<Bytes> {
        let (_, filter) = self.conversation.wanted_changes();
        let lists = [
            (filter.tools, Method::ToolsChanged),
            (filter.prompts, Method::PromptsChanged),
            (filter.resources, Method::ResourcesChanged),
        ];
        let lists = lists.into_iter().filter(|(is_watched, _)| *is_watched);
        let lists = lists.map(|(_, method)| RpcNotification::new(method, None));
        lists.chain(filter.uris.iter().map(|uri| updated(uri))).map(|change| change.to_bytes()).collect()
    }

    /// The next message for the client.
    pub(crate) fn poll(&mut self, context: &mut Context<'_>) -> Poll<Bytes> {
        loop {
            if !self.wish.is_some_and(|wish| self.conversation.is_wish(wish, context.waker())) {
                self.follow_wish();
                continue;
            }
            if let Poll::Ready(question) = self.poll_roots(context) {
                return Poll::Ready(question);
            }
            match &mut self.state {
                ChangeWatchState::Idle => return Poll::Pending,
                ChangeWatchState::Resting(sleep) => {
                    std::task::ready!(sleep.as_mut().poll(context));
                    self.wish = None;
                }
                ChangeWatchState::Listening(running) => match std::task::ready!(running.poll_event(context)) {
                    ReplyEvent::Note(note) if note.method == Method::SubscriptionAcknowledged => {}
                    ReplyEvent::Note(note) => return Poll::Ready(notification::to_legacy(&note).to_bytes()),
                    ReplyEvent::Done(outcome) => self.state = after(&outcome),
                },
            }
        }
    }

    /// What the client is asked so that servers can hear of its new roots. Servers that hear of them are on their way
    /// to this client alone; no caller waits for the answer of the turn.
    fn poll_roots(&mut self, context: &mut Context<'_>) -> Poll<Bytes> {
        loop {
            let Some((number, turn)) = &mut self.roots else {
                let Some(number) = self.conversation.untold_roots() else { return Poll::Pending };
                self.roots = Some((
                    number,
                    LegacyTurn::start(
                        self.conversation.clone(),
                        self.caller.clone(),
                        roots_changed(),
                        CallOptions::default(),
                    ),
                ));
                continue;
            };
            match std::task::ready!(turn.poll(context)) {
                TurnOutput::Message(message) => return Poll::Ready(message),
                TurnOutput::Response(_) | TurnOutput::Silence => {
                    self.conversation.told_roots(*number);
                    self.roots = None;
                }
            }
        }
    }

    fn follow_wish(&mut self) {
        let (wish, filter) = self.conversation.wanted_changes();
        self.wish = Some(wish);
        self.state = match filter == SubscriptionFilter::default() || self.conversation.is_over() {
            true => ChangeWatchState::Idle,
            false => ChangeWatchState::Listening(RunningCall::start(
                &*self.conversation.answer,
                self.conversation.listen(&self.caller, &filter),
            )),
        };
    }
}

/// The notification as a request of ours, since it leads to a question.
fn roots_changed() -> RpcRequest {
    let id = RequestId::from_raw(RawJson::string(Method::RootsChanged.as_str())).expect("a string is an id");
    RpcRequest::new(id, Method::RootsChanged, None)
}

fn updated(uri: &str) -> RpcNotification {
    let mut params = ObjectWriter::with_capacity(uri.len() + 16);
    params.string("uri", uri);
    RpcNotification::new(Method::ResourceUpdated, Some(params.finish()))
}

fn after(outcome: &Outcome) -> ChangeWatchState {
    match outcome {
        // A server that cannot report changes now will not be able to later.
        Outcome::Failed(tsugi_protocol::answer::CallFailure::Upstream(_)) => ChangeWatchState::Idle,
        _ => ChangeWatchState::Resting(Box::pin(tokio::time::sleep(PAUSE))),
    }
}
