//! The layers around a connection, one file each. What a layer does not need to do costs nothing.

pub mod deadline;
pub mod trace;
