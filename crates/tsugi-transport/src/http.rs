//! Messages over HTTP: each request has its own answer, as one JSON body or as a stream of events.

mod client;
mod connector;
mod credential;
pub mod headers;
mod http1;
mod pool;
mod response;

pub use client::{HttpClient, HttpTarget};
pub(crate) use connector::UpstreamConnector;
pub use connector::tls_config;
pub use credential::{
    CredentialDefect, CredentialHeaders, CredentialRefusal, CredentialStanding, RefusalVerdict, RequestCredential,
    TargetCredential,
};
pub use response::{BodyKind, EventStream, HttpResponse};
