//! What only the command does about a server that does not work: finding installed versions, and safe repairs.

pub(crate) mod fix;
pub(crate) mod version;
