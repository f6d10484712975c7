//! Records as resources: what a client can read by address, and keep or watch.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tsugi_protocol::json::Raw;
use tsugi_protocol::mcp::freshness::{CacheScope, Freshness};
use tsugi_protocol::serve::{Builder, Contents, Context, Error, Resource, Template};

use super::service::{Service, refused};
use super::text;
use crate::action::find::GetHistory;
use crate::action::list::{GetReadyTasks, ListTasks};
use crate::action::look::{GetTask, Section};
use crate::action::people::{GetAgent, GetMyProfile, GetSession, ListSessions};
use crate::action::project::GetProject;
use crate::domain::fault::{Code, Fault};
use crate::domain::id::{AgentId, ProjectId, SessionId, TaskRef};
use crate::domain::task::{TaskSort, TaskStatus};

const JSON: &str = "application/json";
/// Of some things a copy may be two seconds old.
const BRIEFLY: u64 = 2000;
/// Tasks in a column of the board: all seven together stay below what an answer may have. Each says where to go on.
const COLUMN: i64 = 10;

/// The variable of most addresses.
#[derive(Deserialize)]
struct ById {
    id: String,
}

/// The variable of what belongs to a task.
#[derive(Deserialize)]
struct ByTask {
    #[serde(rename = "taskId")]
    task_id: String,
}

/// The variables of a history.
#[derive(Deserialize)]
struct EventsOf {
    #[serde(rename = "projectId")]
    project_id: String,
    since: Option<String>,
}

/// Adds every resource and template.
pub(super) fn add(service: &Arc<Service>, builder: Builder) -> Builder {
    let builder = add_people(service, builder);
    let builder = add_projects(service, builder);
    add_tasks(service, builder)
}

/// Binds a template: the variables' type, and the function that reads.
macro_rules! template {
    ($service:expr, $address:literal, $name:literal, $about:literal, $of:ty, $read:path) => {{
        let service = $service.clone();
        Template::new($address, $name).mime_type(JSON).description($about).handler(move |of: $of, context: Context| {
            let service = service.clone();
            async move { $read(&service, &context, of).await }
        })
    }};
}

/// Binds a resource with a fixed address, and the function that reads it.
macro_rules! fixed {
    ($service:expr, $address:literal, $name:literal, $about:literal, $read:path) => {{
        let service = $service.clone();
        Resource::new($address, $name).mime_type(JSON).description($about).handler(move |context: Context| {
            let service = service.clone();
            async move { $read(&service, &context).await }
        })
    }};
}

fn add_people(service: &Arc<Service>, builder: Builder) -> Builder {
    builder
        .resource(fixed!(service, "agent://me", "My Agent", "自分のエージェント情報 / who you are", me))
        .resource(fixed!(
            service,
            "session://current",
            "Current Session",
            "現在のセッション情報 / the session a call without session_id uses",
            current_session
        ))
        .template(template!(service, "agent://{id}", "Agent by ID", "One agent.", ById, agent))
        .template(template!(service, "session://{id}", "Session by ID", "One session of yours.", ById, session))
}

fn add_projects(service: &Arc<Service>, builder: Builder) -> Builder {
    builder
        .template(template!(service, "project://{id}", "Project by ID", "A project and its people.", ById, project))
        .template(template!(service, "project://{id}/board", "Project board", "Tasks by status.", ById, board))
        .template(template!(service, "project://{id}/ready", "Ready tasks", "What can start now.", ById, ready))
        .template(template!(
            service,
            "events://{projectId}{?since}",
            "Project history",
            "What happened, oldest first.",
            EventsOf,
            events
        ))
}

fn add_tasks(service: &Arc<Service>, builder: Builder) -> Builder {
    builder
        .template(template!(service, "task://{id}", "Task by ID", "A task, as data and as a page.", ById, task))
        .template(template!(service, "context://{taskId}", "Task Context", "What was learnt.", ByTask, contexts))
        .template(template!(
            service,
            "handoff://{taskId}",
            "Task Handoff",
            "The handoff that waits, else the last.",
            ByTask,
            handoff
        ))
        .template(template!(service, "claim://{taskId}", "Task Claim", "Who holds a task.", ByTask, claim))
}

async fn me(service: &Service, context: &Context) -> Result<Contents, Error> {
    shown("agent://me", service.ask(context, GetMyProfile {}).await, 0)
}

async fn current_session(service: &Service, context: &Context) -> Result<Contents, Error> {
    let uri = "session://current";
    match service.ask(context, GetSession::default()).await {
        // Several sessions are no error to someone who only looks.
        Err(fault) if fault.code == Code::SessionAmbiguous => {
            let mine = service.caller(context).await.map_err(|fault| missing(uri, &fault))?.agent_id().cloned();
            let all = service.ask(context, ListSessions::default()).await.map_err(|fault| missing(uri, &fault))?;
            let sessions: Vec<_> =
                all.sessions.into_iter().filter(|row| Some(&row.session.agent_id) == mine.as_ref()).collect();
            shown(uri, Ok(json!({"sessions": sessions})), 0)
        }
        other => shown(uri, other, 0),
    }
}

async fn agent(service: &Service, context: &Context, of: ById) -> Result<Contents, Error> {
    let uri = format!("agent://{}", of.id);
    let agent_id = AgentId::parse(&of.id).map_err(|fault| missing(&uri, &fault))?;
    shown(&uri, service.ask(context, GetAgent { agent_id }).await, BRIEFLY)
}

async fn session(service: &Service, context: &Context, of: ById) -> Result<Contents, Error> {
    let uri = format!("session://{}", of.id);
    let session_id = SessionId::parse(&of.id).map_err(|fault| missing(&uri, &fault))?;
    shown(&uri, service.ask(context, GetSession { session_id: Some(session_id) }).await, 0)
}

async fn project(service: &Service, context: &Context, of: ById) -> Result<Contents, Error> {
    let uri = format!("project://{}", of.id);
    let project_id = service.project_id(context, &of.id).await.map_err(|fault| missing(&uri, &fault))?;
    shown(&uri, service.ask(context, GetProject { project_id }).await, BRIEFLY)
}

async fn board(service: &Service, context: &Context, of: ById) -> Result<Contents, Error> {
    let uri = format!("project://{}/board", of.id);
    let project_id = service.project_id(context, &of.id).await.map_err(|fault| missing(&uri, &fault))?;
    let mut columns = serde_json::Map::new();
    for status in TaskStatus::ALL {
        let wish = ListTasks {
            project_id: Some(project_id.clone()),
            status: vec![*status],
            sort: Some(TaskSort::Priority),
            limit: Some(COLUMN),
            ..ListTasks::default()
        };
        let tasks = service.ask(context, wish).await.map_err(|fault| missing(&uri, &fault))?;
        columns.insert(status.to_string(), json!(tasks));
    }
    shown(&uri, Ok(Value::Object(columns)), BRIEFLY)
}

async fn ready(service: &Service, context: &Context, of: ById) -> Result<Contents, Error> {
    let uri = format!("project://{}/ready", of.id);
    let project_id = service.project_id(context, &of.id).await.map_err(|fault| missing(&uri, &fault))?;
    let wish = GetReadyTasks { project_id: Some(project_id), ..GetReadyTasks::default() };
    shown(&uri, service.ask(context, wish).await, 0)
}

async fn events(service: &Service, context: &Context, of: EventsOf) -> Result<Contents, Error> {
    let uri = format!("events://{}", of.project_id);
    let project_id = service.project_id(context, &of.project_id).await.map_err(|fault| missing(&uri, &fault))?;
    let since = of.since.map(|text| text.parse::<i64>()).transpose();
    let since_seq = since.map_err(|_| Error::invalid_params("`since` must be a number"))?;
    let wish = GetHistory { project_id: Some(project_id), since_seq, ..GetHistory::default() };
    shown(&uri, service.ask(context, wish).await, 0)
}

async fn task(service: &Service, context: &Context, of: ById) -> Result<Contents, Error> {
    let uri = format!("task://{}", of.id);
    let name = TaskRef::parse(&of.id).map_err(|fault| missing(&uri, &fault))?;
    let detail = service.ask(context, GetTask::of(name)).await.map_err(|fault| missing(&uri, &fault))?;
    let page = text::task_page(&detail, service.lang());
    Ok(shown(&uri, Ok(detail), BRIEFLY)?.and_text(None, Some("text/markdown"), page))
}

/// One part of what surrounds a task.
async fn part(service: &Service, context: &Context, uri: &str, of: ByTask, section: Section) -> Result<Value, Error> {
    let task_id = TaskRef::parse(&of.task_id).map_err(|fault| missing(uri, &fault))?;
    let wish = GetTask { task_id, include: vec![section], max_bytes: None };
    let detail = service.ask(context, wish).await.map_err(|fault| missing(uri, &fault))?;
    let mut answer = match section {
        Section::Contexts => json!({"task_id": detail.task.id, "contexts": detail.contexts}),
        Section::Handoff => json!({"task_id": detail.task.id, "handoff": detail.handoff}),
        _ => json!({"task_id": detail.task.id, "claim": detail.claim, "claim_history": detail.claim_history}),
    };
    if detail.truncated.iter().any(|part| part == section.as_str()) {
        answer["truncated"] = json!([section]);
    }
    Ok(answer)
}

async fn contexts(service: &Service, context: &Context, of: ByTask) -> Result<Contents, Error> {
    let uri = format!("context://{}", of.task_id);
    shown(&uri, Ok(part(service, context, &uri, of, Section::Contexts).await?), BRIEFLY)
}

async fn handoff(service: &Service, context: &Context, of: ByTask) -> Result<Contents, Error> {
    let uri = format!("handoff://{}", of.task_id);
    shown(&uri, Ok(part(service, context, &uri, of, Section::Handoff).await?), BRIEFLY)
}

async fn claim(service: &Service, context: &Context, of: ByTask) -> Result<Contents, Error> {
    let uri = format!("claim://{}", of.task_id);
    shown(&uri, Ok(part(service, context, &uri, of, Section::Claim).await?), 0)
}

impl Service {
    /// A project by id, or by its key.
    pub(super) async fn project_id(&self, context: &Context, name: &str) -> Result<ProjectId, Fault> {
        if name.starts_with("prj_") {
            return ProjectId::parse(name);
        }
        let caller = self.caller(context).await?;
        let all = self.pm.projects_of(&caller).await?;
        let found = all.into_iter().find(|project| project.key == name);
        found.map(|project| project.id).ok_or_else(|| Fault::not_found("project", name))
    }
}

fn shown<T: Serialize>(uri: &str, answer: Result<T, Fault>, ttl_ms: u64) -> Result<Contents, Error> {
    let answer = answer.map_err(|fault| missing(uri, &fault))?;
    Ok(Contents::json(&Raw::from_value(&answer)).fresh_for(Freshness { ttl_ms, scope: CacheScope::Private }))
}

/// What does not exist, or cannot be an address, is missing; every other refusal says why.
fn missing(uri: &str, fault: &Fault) -> Error {
    match fault.code {
        Code::NotFound | Code::InvalidArgument => Error::resource_not_found(uri),
        _ => refused(fault),
    }
}
