//! What a process that serves one agent owes its sessions: one for a legacy client, signs of life, a goodbye.

use std::sync::Arc;
use std::time::Duration;

use tsugi_protocol::answer::{Answer, Call, Outcome, Reply};
use tsugi_protocol::json::{JsonObject, ObjectWriter};
use tsugi_protocol::mcp::{ClientProfile, Era, Method};
use tsugi_protocol::serve::InProcessServer;

use super::service::PmService;
use super::{PmServerSettings, offer, watch};
use crate::action::Pm;
use crate::action::agent::GetSession;
use crate::action::caller::ActionCaller;
use crate::action::presence::{DisconnectSession, ProcessHeartbeat};
use crate::domain::fault::PmFault;
use crate::domain::id::{AgentId, SessionId};
use crate::domain::session::{EndKind, SessionHost};

/// How often the process says that it lives.
pub const HEARTBEAT: Duration = Duration::from_secs(15);

/// The server of one process, for one agent.
pub struct ServerProcess {
    server: Arc<InProcessServer>,
    service: Arc<PmService>,
    agent: AgentId,
    host: SessionHost,
}

impl ServerProcess {
    /// Makes the server; `host` is this process.
    pub async fn new(
        pm: Pm,
        agent: AgentId,
        host: SessionHost,
        settings: PmServerSettings,
    ) -> Result<Arc<Self>, PmFault> {
        let settings =
            PmServerSettings { actor: super::ServerActor::Agent(agent.clone()), host: Some(host.clone()), ..settings };
        let service = PmService::new(pm, settings);
        let server = offer(&service);
        watch::start(&service, &server);
        Ok(Arc::new(Self { server, service, agent, host }))
    }

    /// Says that the process lives, until dropped. It renews no claim: a hung agent's pipe stays open too.
    pub async fn keep_alive(&self) {
        let mut ticks = tokio::time::interval(HEARTBEAT);
        loop {
            ticks.tick().await;
            let beat = ProcessHeartbeat { process_nonce: self.host.process_nonce.clone() };
            if let Err(fault) = self.service.pm.perform(&self.caller(), beat).await {
                tracing::warn!(%fault, "the sign of life could not be written");
            }
        }
    }

    /// Waits until a newer program has changed the database's schema; the process must then end.
    pub async fn until_outdated(&self) -> PmFault {
        self.service.pm.store().until_outdated().await
    }

    /// Disconnects every session that this process hosts. Their claims wait to be resumed.
    pub async fn end(&self, kind: EndKind) {
        for session_id in self.service.seen() {
            if !self.hosts(&session_id).await {
                continue;
            }
            let goodbye = DisconnectSession { session_id, kind };
            if let Err(fault) = self.service.pm.perform(&self.caller(), goodbye).await {
                tracing::warn!(%fault, "a session ended without a word");
            }
        }
    }

    async fn hosts(&self, session_id: &SessionId) -> bool {
        let wish = GetSession { session_id: Some(session_id.clone()) };
        let found = self.service.pm.perform(&self.caller(), wish).await;
        found.is_ok_and(|row| row.session.process_nonce.as_ref() == Some(&self.host.process_nonce))
    }

    fn caller(&self) -> ActionCaller {
        ActionCaller::agent(self.agent.clone())
    }
}

impl Answer for ServerProcess {
    fn answer(&self, call: Call) -> Reply {
        let client = call.meta.client.clone();
        if call.method != Method::Discover || client.version.era() == Era::Modern {
            return self.server.answer(call);
        }
        let (server, service, agent) = (self.server.clone(), self.service.clone(), self.agent.clone());
        Reply::from_future(async move {
            let outcome = server.answer(call).outcome().await;
            greet(&service, agent, &client, outcome).await
        })
    }
}

/// A legacy client gets a session, whose id is in the instructions.
async fn greet(service: &PmService, agent: AgentId, client: &ClientProfile, outcome: Outcome) -> Outcome {
    let Outcome::Complete(complete) = outcome else { return outcome };
    let session = match service.caller_of(ActionCaller::agent(agent), client).await {
        Ok(caller) => caller.default_session,
        Err(fault) => {
            tracing::warn!(%fault, "no session could be begun");
            None
        }
    };
    match session {
        Some(session) => Outcome::complete(with_session(&complete.body, &session)),
        None => Outcome::Complete(complete),
    }
}

fn with_session(result: &JsonObject, session: &SessionId) -> JsonObject {
    let said = result.get_str("instructions").unwrap_or_default();
    let mut greeting = ObjectWriter::with_capacity(result.bytes().len() + 64);
    greeting.members(result, |key| key != "instructions");
    greeting.string("instructions", &format!("{said} Your session is {session}."));
    greeting.finish_object()
}
