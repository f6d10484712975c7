//! What agents share and which moves are legal, with no SQL, no protocol, and time only as an argument.

pub(crate) mod word;

pub mod advice;
pub mod agent;
pub mod claim;
pub mod context;
pub mod dependency;
pub mod event;
pub mod fault;
pub mod handoff;
pub mod id;
pub mod limit;
pub mod member;
pub mod notice;
pub mod permission;
pub mod policy;
pub mod project;
pub mod session;
pub mod task;
pub mod time;
pub mod token;
