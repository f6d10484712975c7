//! The legacy era without a wire: messages in, messages out. Every face that speaks it is a way of
//! carrying one [`Conversation`].
//!
//! A conversation begins with `initialize` ([`begin`]). Each request becomes a [`Turn`], which the face
//! polls for what to send; between turns a [`Watch`] says what changed. Below, everything is modern: a
//! server's questions become requests to this client, and its answers a retry of the call.

pub(crate) mod batch;
mod conversation;
mod turn;
mod watch;

pub(crate) use conversation::{Conversation, Received, begin};
pub(crate) use turn::Turn;
pub(crate) use watch::Watch;
