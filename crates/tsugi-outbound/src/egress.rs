//! The way out of a sandbox: a list of hosts, and a proxy that connects a program to those and to no others.

mod list;
mod proxy;

pub use list::EgressList;
pub use proxy::{EgressProxy, EgressRefusal, RefusalObserver};
