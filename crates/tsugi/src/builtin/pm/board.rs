//! The board of the dashboard: reads and changes project data, and resolves agents' tokens.

use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use futures_util::stream::{BoxStream, StreamExt, unfold};
use http::request::Parts;
use parking_lot::Mutex;
use serde::Serialize;
use serde_json::{Value, json};
use tsugi_gateway::backend::BoardViewer;
use tsugi_gateway::guard::authority::Authority;
use tsugi_gateway::guard::credential::{CredentialCheck, CredentialVerifier};
use tsugi_gateway::guard::refusal::HttpRefusal;
use tsugi_pm::action::admin::TOKEN_START;
use tsugi_pm::action::agent::{ListAgents, ListSessions};
use tsugi_pm::action::board::GetBoard;
use tsugi_pm::action::board::crew::GetCrew;
use tsugi_pm::action::board::message::SendMessage;
use tsugi_pm::action::board::needs::GetNeeds;
use tsugi_pm::action::board::story::GetStory;
use tsugi_pm::action::board::timeline::GetTimeline;
use tsugi_pm::action::caller::ActionCaller;
use tsugi_pm::action::get_task::GetTask;
use tsugi_pm::action::list::ListTasks;
use tsugi_pm::action::project::{ListProjects, UpdateProject};
use tsugi_pm::action::search::GetHistory;
use tsugi_pm::action::{Action, Pm};
use tsugi_pm::domain::event::HistoryEvent;
use tsugi_pm::domain::fault::PmFault;
use tsugi_pm::mcp::actor::{identity_of_token, of_principal};
use tsugi_pm::store::feed::EventFeed;
use tsugi_protocol::answer;

use super::PmServerState;

/// The server whose board the dashboard shows.
const NAME: &str = "pm";
/// The pause after a database error.
const REST: Duration = Duration::from_secs(5);

/// The project servers in use. Weak, so that a server dropped by a reload goes away.
#[derive(Default)]
pub(crate) struct PmBoards(Mutex<Vec<Weak<PmServerState>>>);

impl PmBoards {
    pub(super) fn remember(&self, shared: &Arc<PmServerState>) {
        let mut servers = self.0.lock();
        // Each reload adds one; without this the list would grow.
        servers.retain(|server| server.strong_count() > 0);
        servers.push(Arc::downgrade(shared));
    }

    /// Those in use, the newest first: after a change of the configuration it is the one that counts.
    fn in_use(&self) -> Vec<Arc<PmServerState>> {
        self.0.lock().iter().rev().filter_map(Weak::upgrade).collect()
    }

    /// The changes that this viewer may see, from now on; `None` without a board.
    pub(crate) fn changes(&self, looker: BoardViewer<'_>) -> Option<BoxStream<'static, Value>> {
        let shared = self.shown()?;
        let begin = BoardReader::Before(Arc::downgrade(&shared), named(looker));
        Some(unfold(begin, |reader| reader.next()).boxed())
    }

    /// What stands on the board as far as this looker may see it: the reading tools of the page, the views that only
    /// people have, and no others.
    pub(crate) fn look(&self, looker: BoardViewer<'_>, name: &str, arguments: Value) -> Option<BoardFuture> {
        let (shared, caller) = (self.shown()?, named(looker));
        Some(match name {
            ListProjects::NAME => perform::<ListProjects>(shared, caller, arguments).boxed(),
            ListTasks::NAME => perform::<ListTasks>(shared, caller, arguments).boxed(),
            GetTask::NAME => perform::<GetTask>(shared, caller, arguments).boxed(),
            ListAgents::NAME => perform::<ListAgents>(shared, caller, arguments).boxed(),
            ListSessions::NAME => perform::<ListSessions>(shared, caller, arguments).boxed(),
            GetHistory::NAME => perform::<GetHistory>(shared, caller, arguments).boxed(),
            GetBoard::NAME => perform::<GetBoard>(shared, caller, arguments).boxed(),
            GetNeeds::NAME => perform::<GetNeeds>(shared, caller, arguments).boxed(),
            GetCrew::NAME => perform::<GetCrew>(shared, caller, arguments).boxed(),
            GetStory::NAME => perform::<GetStory>(shared, caller, arguments).boxed(),
            GetTimeline::NAME => perform::<GetTimeline>(shared, caller, arguments).boxed(),
            // These cover the whole database. The gateway checks that the caller may see all of it.
            "get_state" => async move { told(opened(&shared).await?.state().await) }.boxed(),
            "verify" => async move { told(opened(&shared).await?.verify().await) }.boxed(),
            _ => return None,
        })
    }

    /// Performs a change that no tool of the usual profiles offers, as the caller's agent.
    pub(crate) fn order(&self, caller: &answer::Caller, name: &str, arguments: Value) -> Option<BoardFuture> {
        let (shared, caller) = (self.shown()?, Some(caller.clone()));
        Some(match name {
            UpdateProject::NAME => perform::<UpdateProject>(shared, caller, arguments).boxed(),
            SendMessage::NAME => perform::<SendMessage>(shared, caller, arguments).boxed(),
            _ => return None,
        })
    }

    /// The server whose board is shown.
    fn shown(&self) -> Option<Arc<PmServerState>> {
        self.in_use().into_iter().find(|server| server.name == NAME)
    }
}

impl PmBoards {
    /// What a token opens: one server, as one agent. A token does not name its server, so each is asked.
    async fn authority_of(&self, secret: &str) -> Option<Authority> {
        for server in self.in_use() {
            if let Some(authority) = authority_at(&server, secret).await {
                return Some(authority);
            }
        }
        None
    }
}

impl CredentialVerifier for PmBoards {
    fn recognizes(&self, secret: &str) -> bool {
        secret.starts_with(TOKEN_START)
    }

    fn verify<'a>(&'a self, secret: &'a str, _: &'a Parts) -> CredentialCheck<'a> {
        CredentialCheck::Pending(Box::pin(async move {
            let unknown = || HttpRefusal::wrong_credential("this token is not known, or no longer holds");
            self.authority_of(secret).await.map(Arc::new).ok_or_else(unknown)
        }))
    }

    fn still_holds<'a>(&'a self, secret: &'a str) -> BoxFuture<'a, bool> {
        Box::pin(async move { self.authority_of(secret).await.is_some() })
    }
}

type BoardFuture = BoxFuture<'static, Result<Value, Value>>;

/// The caller behind a viewer. `None` is the read-only dashboard, which sees everything.
fn named(looker: BoardViewer<'_>) -> Option<answer::Caller> {
    match looker {
        BoardViewer::Caller(caller) => Some(caller.clone()),
        BoardViewer::ReadOnly => None,
    }
}

async fn perform<A: Action>(
    shared: Arc<PmServerState>,
    caller: Option<answer::Caller>,
    arguments: Value,
) -> Result<Value, Value> {
    let action =
        serde_json::from_value::<A>(arguments).map_err(|error| PmFault::invalid(error.to_string()).to_json())?;
    let pm = opened(&shared).await?;
    let caller = match caller {
        Some(caller) => of_principal(pm, &caller).await.map_err(|fault| fault.to_json())?,
        None => ActionCaller::operator(),
    };
    told(pm.perform(&caller, action).await)
}

async fn opened(shared: &PmServerState) -> Result<&Pm, Value> {
    shared.pm().await.map_err(|fault| PmFault::internal(fault.to_string()).to_json())
}

fn told<T: Serialize>(answer: Result<T, PmFault>) -> Result<Value, Value> {
    answer.map(|told| json!(told)).map_err(|fault| fault.to_json())
}

async fn authority_at(server: &PmServerState, secret: &str) -> Option<Authority> {
    let found = match server.pm().await {
        Ok(pm) => pm.authenticate(secret).await.inspect_err(|fault| tracing::warn!(%fault, "a token was not checked")),
        Err(fault) => {
            tracing::warn!(%fault, "a token was not checked");
            return None;
        }
    };
    // A token without an agent authenticates no caller.
    let agent = found.ok().flatten()?.agent_id()?.clone();
    Some(Authority::new(identity_of_token(&agent, &server.name)).with_permit(server.permit.clone()))
}

/// A subscription to changes, opened with its first read.
enum BoardReader {
    /// Not opened yet. Weak, so that a subscription does not keep a dropped server alive.
    Before(Weak<PmServerState>, Option<answer::Caller>),
    Reading {
        pm: Pm,
        caller: ActionCaller,
        feed: Box<EventFeed>,
    },
}

impl BoardReader {
    async fn next(mut self) -> Option<(Value, Self)> {
        loop {
            match &mut self {
                Self::Before(shared, caller) => self = Self::begin(shared, caller).await?,
                Self::Reading { pm, caller, feed } => match feed.next().await {
                    Ok(event) if pm.may_see(caller, &event).await => return Some((change(&event), self)),
                    // An event of a project that this caller may not see.
                    Ok(_) => {}
                    Err(fault) => {
                        tracing::warn!(%fault, "the board's changes pause for a while");
                        tokio::time::sleep(REST).await;
                    }
                },
            }
        }
    }

    async fn begin(shared: &Weak<PmServerState>, caller: &Option<answer::Caller>) -> Option<Self> {
        let pm = shared.upgrade()?.pm().await.ok()?.clone();
        let caller = match caller {
            Some(caller) => of_principal(&pm, caller).await.ok()?,
            None => ActionCaller::operator(),
        };
        // From the newest event on: the page has loaded the state before it.
        let feed = Box::new(pm.subscribe(pm.last_seq().await.ok()?));
        Some(Self::Reading { pm, caller, feed })
    }
}

fn change(event: &HistoryEvent) -> Value {
    json!({
        "project": event.project_id,
        "entity": event.entity_type,
        "id": event.entity_id,
        "task": event.task(),
        "version": event.version_after,
        "at": event.at,
        "agent": event.actor_agent_id,
        "action": event.kind,
    })
}
