//! `subscriptions/listen`: a stream that stays open, acknowledged first, tagged throughout, ended politely
//! ([Subscriptions](https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/subscriptions)).

use std::task::{Context, Poll};

use ::http::Response;
use bytes::Bytes;
use tokio::sync::OwnedSemaphorePermit;
use tsugi_protocol::answer::{Answer, Call, CallNote, Outcome, ReplyEvent};
use tsugi_protocol::era::notification;
use tsugi_protocol::mcp::Method;
use tsugi_protocol::mcp::subscription::{SubscriptionFilter, acknowledgment, tagged};
use tsugi_protocol::rpc::{self, RequestId, RpcError, code};

use super::stream::response;
use crate::backend::Endpoint;
use crate::body::{BodyChunks, ResponseBody};
use crate::face::event::{self, KeepAliveTicks};
use crate::face::running_call::RunningCall;
use crate::face::{FaceRequest, fault, http};
use crate::gateway::StreamEnd;

/// How many resources one client may watch.
pub(crate) const SUBSCRIPTIONS: usize = 1024;

/// Refuses a subscription that is not one yet: one that watches more than we can keep.
pub(crate) fn expect_few(call: &Call) -> Result<(), RpcError> {
    let count = || {
        let wanted = notification::read_filter(&call.params);
        wanted.uris.len().max(wanted.tasks.len())
    };
    match call.method == Method::Listen && count() > SUBSCRIPTIONS {
        true => Err(too_many()),
        false => Ok(()),
    }
}

/// The error for resources that are too many to watch.
pub(crate) fn too_many() -> RpcError {
    RpcError::new(code::INVALID_PARAMS, &format!("at most {SUBSCRIPTIONS} resources and as many tasks can be watched"))
}

/// Opens the stream.
pub(crate) fn open(
    face_request: FaceRequest<'_>,
    endpoint: &Endpoint,
    id: RequestId,
    call: Call,
) -> Response<ResponseBody> {
    let room = match face_request.gateway.take_stream() {
        Ok(room) => room,
        Err(refusal) => return fault::rpc_error(refusal.status, Some(&id), &refusal.to_fault().to_rpc()),
    };
    let subscription = ListenSubscription::open(&*endpoint.answer, id, call);
    http::long_events(ListenStream {
        subscription: Some(subscription),
        keep_alive: KeepAliveTicks::new(face_request.gateway.config().limits.keep_alive),
        ending: face_request.gateway.until_dismissed(face_request.gateway.drain().draining(), &face_request.principal),
        _room: room,
    })
}

/// One open subscription, whatever wire it is on.
pub(crate) struct ListenSubscription {
    id: RequestId,
    running: RunningCall,
    wanted: SubscriptionFilter,
    is_acknowledged: bool,
    held: Option<CallNote>,
}

/// What a subscription has to say.
pub(crate) enum SubscriptionOutput {
    Note(Bytes),
    /// Its response: nothing comes after it.
    End(Bytes),
}

impl ListenSubscription {
    pub(crate) fn open(answer: &dyn Answer, id: RequestId, call: Call) -> Self {
        let wanted = notification::read_filter(&call.params);
        Self { id, running: RunningCall::start(answer, call), wanted, is_acknowledged: false, held: None }
    }

    pub(crate) fn poll(&mut self, context: &mut Context<'_>) -> Poll<SubscriptionOutput> {
        if let Some(held) = self.held.take() {
            return Poll::Ready(self.note(&held));
        }
        match std::task::ready!(self.running.poll_event(context)) {
            ReplyEvent::Note(note) if self.is_acknowledged || note.method == Method::SubscriptionAcknowledged => {
                self.is_acknowledged = true;
                Poll::Ready(self.note(&note))
            }
            // Nothing may come before the acknowledgment, so one is made when the source forgot it.
            ReplyEvent::Note(note) => {
                self.is_acknowledged = true;
                self.held = Some(note);
                Poll::Ready(self.note(&acknowledgment(&self.wanted, self.id.raw())))
            }
            ReplyEvent::Done(outcome) => Poll::Ready(SubscriptionOutput::End(self.ended_by(&outcome))),
        }
    }

    fn note(&self, note: &CallNote) -> SubscriptionOutput {
        SubscriptionOutput::Note(tagged(note, self.id.raw()).to_bytes())
    }

    /// The response of a subscription that ends because we end.
    pub(crate) fn goodbye(&self) -> Bytes {
        rpc::RpcResponse::result(self.id.clone(), notification::listen_result(self.id.raw()).raw()).to_bytes()
    }

    fn ended_by(&self, outcome: &Outcome) -> Bytes {
        match outcome {
            Outcome::Failed(_) => response(&self.id, &Method::Listen, outcome),
            _ => self.goodbye(),
        }
    }
}

struct ListenStream {
    subscription: Option<ListenSubscription>,
    keep_alive: KeepAliveTicks,
    ending: StreamEnd,
    _room: OwnedSemaphorePermit,
}

impl BodyChunks for ListenStream {
    fn poll_chunk(&mut self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        let Some(subscription) = &mut self.subscription else { return Poll::Ready(None) };
        if let Poll::Ready(said) = subscription.poll(context) {
            self.keep_alive.reset();
            return match said {
                SubscriptionOutput::Note(note) => Poll::Ready(Some(event::message(&note))),
                SubscriptionOutput::End(response) => {
                    self.subscription = None;
                    Poll::Ready(Some(event::message(&response)))
                }
            };
        }
        if self.ending.as_mut().poll(context).is_ready() {
            let goodbye = event::message(&subscription.goodbye());
            self.subscription = None;
            return Poll::Ready(Some(goodbye));
        }
        self.keep_alive.poll(context).map(Some)
    }
}
