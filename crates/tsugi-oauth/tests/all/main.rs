//! The client against scripted servers and issuers: what goes where, and what never does.

#![allow(clippy::unwrap_used)]

mod attacks;
mod discovery;
mod grants;
mod refresh;
mod sign_in;
mod site;
mod world;
