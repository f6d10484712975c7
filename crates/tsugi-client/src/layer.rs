//! The layers around a connection, one file each. What a layer does not need to do costs nothing.

pub(crate) mod breaker;
pub(crate) mod cache;
pub(crate) mod can_execute;
pub(crate) mod deadline;
pub(crate) mod limit;
pub(crate) mod retry;
pub(crate) mod trace;
pub(crate) mod validate;
