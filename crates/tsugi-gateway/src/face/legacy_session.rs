//! The legacy era without a wire: messages in, messages out. Every face that speaks it is a way of
//! carrying one [`LegacySession`].
//!
//! A conversation begins with `initialize` ([`begin`]). Each request becomes a [`LegacyTurn`], which the face
//! polls for what to send; between turns a [`LegacyChangeWatch`] says what changed. Below, everything is modern: a
//! server's questions become requests to this client, and its answers a retry of the call.

pub(crate) mod batch;
mod change_watch;
mod session;
mod turn;

pub(crate) use change_watch::LegacyChangeWatch;
pub(crate) use session::{LegacySession, MessageEffect, begin};
pub(crate) use turn::LegacyTurn;
