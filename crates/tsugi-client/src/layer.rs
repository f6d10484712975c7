//! The layers around a connection, one file each. What a layer does not need to do costs nothing.

pub mod breaker;
pub mod cache;
pub mod can_execute;
pub mod deadline;
pub mod limit;
pub mod retry;
pub mod trace;
pub mod validate;
