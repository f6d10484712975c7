//! The one place where files, environment and flags become checked settings.

pub(crate) mod adapter;
pub(crate) mod document;
pub(crate) mod env;
pub(crate) mod file;
pub(crate) mod key;
pub(crate) mod layer;
pub(crate) mod parse;
pub(crate) mod problem;
pub(crate) mod resolve;
pub(crate) mod secret;
pub(crate) mod settings;
