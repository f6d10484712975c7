//! The one place where files, environment and flags become checked settings.
//!
//! Read in this order: [`layer`] decides which configuration holds, [`file`] finds and reads it,
//! [`document`] is what the user wrote, with its places, [`env`] replaces `${…}`, [`key`] lists every key
//! with its default and meaning, [`parse`] reads single values, [`resolve`] checks it all and makes
//! [`settings`] of it, or a list of [`problem`]s. [`secret`] keeps what must not be printed, and `secret_command` runs programs for it. [`watch`]
//! notices changes, [`known_remote`] knows well-known servers by their addresses, [`adapter`] turns other programs'
//! files into ours, and [`edit`] changes a file of ours as a careful person would.

pub(crate) mod adapter;
pub(crate) mod document;
pub(crate) mod edit;
pub(crate) mod env;
pub(crate) mod file;
pub(crate) mod key;
pub(crate) mod known_remote;
pub(crate) mod layer;
pub(crate) mod parse;
pub(crate) mod problem;
pub(crate) mod resolve;
pub(crate) mod secret;
mod secret_command;
pub(crate) mod settings;
pub(crate) mod watch;
mod yaml_text;
