//! Opens a connection over HTTP: a modern request first, then `initialize`, then the two-endpoint wire.

use std::sync::Arc;

use bytes::Bytes;
use http::HeaderMap;
use tsugi_protocol::answer::{CallStage, Fault, FaultCode, FaultReason, SentState};
use tsugi_protocol::era::{detect, session};
use tsugi_protocol::mcp::{Era, Method};
use tsugi_protocol::rpc::message::write_numbered;
use tsugi_protocol::rpc::{ResponsePayload, RpcMessage, RpcNotification};
use tsugi_transport::TransportError;
use tsugi_transport::http::{BodyKind, HttpClient, HttpResponse, HttpTarget, headers};

use super::super::batch;
use super::super::context::ConnectionContext;
use super::super::handshake::{
    HandshakeTerms, discover_params, has_legacy, no_common_version, not_modern, read_initialized,
};
use super::super::notice::ServerNotice;
use super::{HttpConnection, HttpCore, HttpSession, modern_headers_of};
use crate::config::EraChoice;
use crate::error::connect_fault;

/// The result of opening an HTTP address.
pub(crate) enum HttpOpening {
    Exchange(Box<HttpConnection>),
    /// The address does not speak streamable HTTP; the two-endpoint wire may be tried.
    MaybeSse(Fault),
}

/// Opens a connection to an HTTP address.
pub(crate) async fn open(
    context: Arc<ConnectionContext>,
    target: HttpTarget,
    terms: HandshakeTerms,
) -> Result<HttpOpening, Fault> {
    let limit = context.options.handshake_timeout;
    let server = context.server.clone();
    match tokio::time::timeout(limit, find_out(context, target, terms)).await {
        Ok(opened) => opened.map_err(|fault| fault.on_server(&server)),
        Err(_) => {
            Err(Fault::new(FaultCode::Timeout, format!("no answer to the handshake within {} s", limit.as_secs()))
                .at(CallStage::Handshake)
                .on_server(&server))
        }
    }
}

async fn find_out(
    context: Arc<ConnectionContext>,
    target: HttpTarget,
    terms: HandshakeTerms,
) -> Result<HttpOpening, Fault> {
    let client = HttpClient::new(target);
    if terms.opening() != Some(Era::Legacy) {
        match probe(&context, &client).await? {
            HttpProbe::Agreed(session) => {
                return Ok(HttpOpening::Exchange(Box::new(HttpConnection::new(context, client, *session))));
            }
            HttpProbe::Legacy if terms.choice == EraChoice::Modern => return Err(not_modern(&context)),
            HttpProbe::Legacy => {}
        }
    }
    match initialize(&context, &client).await? {
        InitializeReply::Agreed(session) => {
            let mut exchange = HttpConnection::new(context, client, *session);
            // Before the listener: servers refuse other requests until they are initialized.
            exchange.core.notify_in_order().await;
            exchange.listen().await;
            Ok(HttpOpening::Exchange(Box::new(exchange)))
        }
        InitializeReply::NotHere(fault) => Ok(HttpOpening::MaybeSse(fault)),
    }
}

enum HttpProbe {
    Agreed(Box<HttpSession>),
    Legacy,
}

async fn probe(context: &Arc<ConnectionContext>, client: &HttpClient) -> Result<HttpProbe, Fault> {
    let message = write_numbered(0, Method::Discover.as_str(), Some(&discover_params(context)));
    let headers = modern_headers_of(&Method::Discover, None);
    let response = client.post(message, headers).await.map_err(|error| connect_fault(&error))?;
    let status = response.status.as_u16();
    let refusal = response.status_error();
    // Without a readable body, the status alone decides.
    let body = read_body(response).await.ok().flatten();
    match detect::of_http(status, body.as_ref()) {
        detect::HttpEraVerdict::Modern(identity) => {
            Ok(HttpProbe::Agreed(Box::new(HttpSession { identity: Arc::new(identity), id: None })))
        }
        detect::HttpEraVerdict::ModernOther { supported } if has_legacy(&supported) => Ok(HttpProbe::Legacy),
        detect::HttpEraVerdict::ModernOther { supported } => Err(no_common_version(context, &supported)),
        detect::HttpEraVerdict::Legacy | detect::HttpEraVerdict::MaybeSse => Ok(HttpProbe::Legacy),
        detect::HttpEraVerdict::Refused => Err(connect_fault(&refusal)),
    }
}

enum InitializeReply {
    Agreed(Box<HttpSession>),
    NotHere(Fault),
}

async fn initialize(context: &Arc<ConnectionContext>, client: &HttpClient) -> Result<InitializeReply, Fault> {
    let params = session::initialize_params(&context.options.profile, context.options.legacy_version);
    let message = write_numbered(0, Method::Initialize.as_str(), Some(&params));
    let response = client.post(message, HeaderMap::new()).await.map_err(|error| connect_fault(&error))?;
    // Made before the body is read, which takes the response.
    let refusal = connect_fault(&response.status_error()).at(CallStage::Handshake);
    let status = response.status;
    let id = response.headers.get(headers::SESSION_ID).cloned();
    let body = read_body(response).await;
    // Servers of 2024-11-05 accept no POST at this address.
    if matches!(status.as_u16(), 400 | 404 | 405) {
        return Ok(InitializeReply::NotHere(refusal));
    }
    if !status.is_success() {
        return Err(refusal);
    }
    let body = body.map_err(|error| connect_fault(&error).at(CallStage::Handshake))?;
    let not_mcp = || {
        let fault = context.fault(FaultCode::InvalidResponse, "the answer to initialize is not an MCP message");
        fault.at(CallStage::Handshake).with_reason(FaultReason::NotMcp)
    };
    let body = body.ok_or_else(not_mcp)?;
    let identity = read_initialized(context, &body).map_err(|fault| fault.at(CallStage::Handshake))?;
    Ok(InitializeReply::Agreed(Box::new(HttpSession { identity: Arc::new(identity), id })))
}

/// The body of the response in an answer: as JSON, or as the first response of an event stream.
async fn read_body(response: HttpResponse) -> Result<Option<ResponsePayload>, TransportError> {
    if response.kind() == BodyKind::Events {
        let mut events = response.events()?;
        while let Some(event) = events.next().await {
            if let Some(body) = response_in(event?.data) {
                events.drain();
                return Ok(Some(body));
            }
        }
        return Ok(None);
    }
    Ok(response_in(response.bytes().await?))
}

fn response_in(text: Bytes) -> Option<ResponsePayload> {
    batch::messages_or_one(text).into_iter().find_map(|message| match RpcMessage::parse(message) {
        Ok(RpcMessage::Response(response)) => Some(response.body),
        _ => None,
    })
}

impl HttpCore {
    /// Sends `notifications/initialized` and waits until the server has accepted it: calls come after it.
    async fn notify_in_order(&self) {
        let message = RpcNotification::new(Method::Initialized, None).to_bytes();
        let headers = self.legacy_headers(&self.session());
        if let Ok(response) = self.client.post(message, headers).await {
            let _ = response.bytes().await;
        }
    }

    /// Opens a new session after the server forgot the old one. This runs in its own task: the caller that noticed may
    /// go away in the middle, and a half-open session is of no use.
    pub(super) async fn reopen(self: &Arc<Self>, forgotten: &HttpSession) -> Result<(), Fault> {
        let (core, forgotten) = (self.clone(), forgotten.clone());
        let reopening = tokio::spawn(async move {
            let limit = core.table.context.options.handshake_timeout;
            tokio::select! {
                reopened = tokio::time::timeout(limit, core.agree_anew(&forgotten)) => reopened.unwrap_or_else(|_| {
                    let message = format!("no answer to the handshake within {} s", limit.as_secs());
                    Err(core.table.context.fault(FaultCode::ConnectionFailed, message).at(CallStage::Handshake))
                }),
                () = core.closed.cancelled() => Err(core.stopped().sent(SentState::NotSent)),
            }
        });
        reopening.await.unwrap_or_else(|_| Err(self.stopped().sent(SentState::NotSent)))
    }

    /// Opens the new session, once for all callers that noticed.
    async fn agree_anew(&self, forgotten: &HttpSession) -> Result<(), Fault> {
        let _one = self.reopening.lock().await;
        // Another caller has opened the new session while this one waited.
        if self.session().id != forgotten.id {
            return Ok(());
        }
        match initialize(&self.table.context, &self.client).await? {
            InitializeReply::Agreed(session) => {
                *self.session.lock() = *session;
                self.table.forget_level();
                self.notify_in_order().await;
                // The new session has none of the old one's subscriptions.
                self.renewals.send_modify(|count| *count += 1);
                self.table.context.publish(ServerNotice::Renewed);
                Ok(())
            }
            InitializeReply::NotHere(fault) => Err(fault),
        }
    }
}
