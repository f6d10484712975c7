//! The wire formats that we offer: each turns its requests into calls, and replies into its own responses.

pub mod event;
pub mod fault;
pub mod http;
pub(crate) mod legacy_session;
pub mod mcp;
pub(crate) mod openapi;
pub(crate) mod peer;
pub(crate) mod rest;
pub(crate) mod rpc;
pub(crate) mod running_call;
pub(crate) mod sse;
pub mod stdio;
pub(crate) mod trace;
pub(crate) mod ws;

use std::net::IpAddr;
use std::sync::Arc;

use ::http::header::CONTENT_TYPE;
use ::http::request::Parts;
use bytes::Bytes;
use hyper::body::Incoming;
use hyper::upgrade::OnUpgrade;
use tsugi_protocol::answer::CallOptions;

use crate::body;
use crate::drain::BusyGuard;
use crate::gateway::Gateway;
use crate::guard::principal::Principal;
use crate::guard::refusal::HttpRefusal;

/// An authenticated request on its way to a face.
pub(crate) struct FaceRequest<'request> {
    pub(crate) gateway: &'request Arc<Gateway>,
    pub(crate) principal: Principal,
    pub(crate) parts: &'request Parts,
    /// The other end of the connection, which may be a proxy.
    pub(crate) peer: IpAddr,
    /// Its id in the access log, when there is one.
    pub(crate) request_id: Option<Arc<str>>,
    /// Held until the answer is written, so that stopping waits for it.
    pub(crate) busy_guard: BusyGuard,
    /// How the connection becomes a WebSocket, when its client wants that.
    pub(crate) upgrade: Option<OnUpgrade>,
}

impl FaceRequest<'_> {
    /// The options of a call that came in by this face.
    pub(crate) fn options(&self, face: &'static str) -> CallOptions {
        let address = self.policy_address();
        CallOptions { face, request_id: self.request_id.clone(), address, ..CallOptions::default() }
    }

    /// Where the request came from, if a policy looks at that.
    pub(crate) fn policy_address(&self) -> Option<IpAddr> {
        self.gateway.guard().policy_address(self.parts, self.peer)
    }

    /// The body of a POST: JSON, not compressed, not too large.
    pub(crate) async fn json_body(&self, body: Incoming) -> Result<Bytes, HttpRefusal> {
        http::expect_json(&self.parts.headers)?;
        self.whole_body(body).await
    }

    /// The body of a form, not too large.
    pub(crate) async fn form_body(&self, body: Incoming) -> Result<Bytes, HttpRefusal> {
        let kind = self.parts.headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        if !kind.starts_with("application/x-www-form-urlencoded") {
            return Err(HttpRefusal::bad_request("this is for the form of the page"));
        }
        self.whole_body(body).await
    }

    async fn whole_body(&self, body: Incoming) -> Result<Bytes, HttpRefusal> {
        let limits = &self.gateway.config().limits;
        let arriving = self.gateway.arriving();
        body::collect(body, self.parts.version, limits.body, limits.body_timeout, arriving).await
    }
}
