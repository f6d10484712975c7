//! What a legacy client hears without having asked: changes, from one listening call that follows its wishes, and the
//! question for its roots after it said that they have changed.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Sleep;
use tsugi_protocol::answer::{Event, Outcome};
use tsugi_protocol::json::{Raw, Splice};
use tsugi_protocol::mcp::Method;
use tsugi_protocol::mcp::subscription::Filter;
use tsugi_protocol::rpc::{Id, Notification, Request};

use super::conversation::Conversation;
use super::turn::Turn;
use crate::face::running::{Running, Said};
use tsugi_protocol::era::change;

/// How long after the end of a listening call the next one is tried.
const PAUSE: Duration = Duration::from_secs(1);

/// Watches for one conversation, as long as somebody polls it. Dropping it ends the watching.
pub(crate) struct Watch {
    conversation: Arc<Conversation>,
    wish: Option<u64>,
    state: State,
    /// Passes a change of the client's roots on, with its number.
    roots: Option<(u64, Turn)>,
}

enum State {
    Listening(Running),
    /// The call ended; try again after a while.
    Resting(Pin<Box<Sleep>>),
    /// Nothing to watch, or nobody who tells: wait for another wish.
    Idle,
}

impl Watch {
    pub(crate) fn new(conversation: Arc<Conversation>) -> Self {
        Self { conversation, wish: None, state: State::Idle, roots: None }
    }

    /// What a client that was away may have missed, as changes: it will look again.
    pub(crate) fn catch_up(&self) -> Vec<Bytes> {
        let (_, filter) = self.conversation.wish();
        let lists = [
            (filter.tools, Method::ToolsChanged),
            (filter.prompts, Method::PromptsChanged),
            (filter.resources, Method::ResourcesChanged),
        ];
        let lists = lists.into_iter().filter(|(is_watched, _)| *is_watched);
        let lists = lists.map(|(_, method)| Notification::new(method, None));
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
                State::Idle => return Poll::Pending,
                State::Resting(sleep) => {
                    std::task::ready!(sleep.as_mut().poll(context));
                    self.wish = None;
                }
                State::Listening(running) => match std::task::ready!(running.poll_event(context)) {
                    Event::Note(note) if note.method == Method::SubscriptionAcknowledged => {}
                    Event::Note(note) => return Poll::Ready(change::to_legacy(&note).to_bytes()),
                    Event::Done(outcome) => self.state = after(&outcome),
                },
            }
        }
    }

    /// What the client is asked so that servers can hear of its new roots. Servers that hear of them are on their way
    /// to this client alone; the answer of the turn says nothing that anybody waits for.
    fn poll_roots(&mut self, context: &mut Context<'_>) -> Poll<Bytes> {
        loop {
            let Some((number, turn)) = &mut self.roots else {
                let Some(number) = self.conversation.untold_roots() else { return Poll::Pending };
                self.roots = Some((number, Turn::start(self.conversation.clone(), roots_changed(), None)));
                continue;
            };
            match std::task::ready!(turn.poll(context)) {
                Said::Message(message) => return Poll::Ready(message),
                Said::Response(_) | Said::Silence => {
                    self.conversation.told_roots(*number);
                    self.roots = None;
                }
            }
        }
    }

    fn follow_wish(&mut self) {
        let (wish, filter) = self.conversation.wish();
        self.wish = Some(wish);
        self.state = match filter == Filter::default() || self.conversation.is_over() {
            true => State::Idle,
            false => State::Listening(Running::start(&*self.conversation.answer, self.conversation.listen(&filter))),
        };
    }
}

/// The notification as a request of ours, since it leads to a question.
fn roots_changed() -> Request {
    let id = Id::from_raw(Raw::string(Method::RootsChanged.as_str())).expect("a string is an id");
    Request::new(id, Method::RootsChanged, None)
}

fn updated(uri: &str) -> Notification {
    let mut params = Splice::with_capacity(uri.len() + 16);
    params.string("uri", uri);
    Notification::new(Method::ResourceUpdated, Some(params.finish()))
}

fn after(outcome: &Outcome) -> State {
    match outcome {
        // Whoever cannot tell now will not be able to later.
        Outcome::Failed(tsugi_protocol::answer::Failure::Upstream(_)) => State::Idle,
        _ => State::Resting(Box::pin(tokio::time::sleep(PAUSE))),
    }
}
