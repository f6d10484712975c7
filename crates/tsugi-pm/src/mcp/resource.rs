//! Records as resources: what a client can read by address, and keep or watch.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tsugi_protocol::json::RawJson;
use tsugi_protocol::mcp::cache_hints::{CacheHints, CacheScope};
use tsugi_protocol::serve::{
    HandlerContext, HandlerError, ResourceBuilder, ResourceContents, ServerBuilder, TemplateBuilder,
};

use super::service::{PmService, refused};
use super::text;
use crate::action::agent::{GetAgent, GetMyProfile, GetSession, ListSessions};
use crate::action::get_task::{GetTask, Section};
use crate::action::list::{GetReadyTasks, ListTasks};
use crate::action::project::GetProject;
use crate::action::search::GetHistory;
use crate::domain::fault::{Code, PmFault};
use crate::domain::id::{AgentId, ProjectRef, SessionId, TaskRef};
use crate::domain::task::{TaskSort, TaskStatus};

const JSON: &str = "application/json";
/// Of some things a copy may be two seconds old.
const BRIEFLY: u64 = 2000;
/// Tasks in a column of the board: all seven together stay below what an answer may have. Each says where to go on.
const COLUMN: i64 = 10;

/// The variable of most addresses.
#[derive(Deserialize)]
struct IdVariables {
    id: String,
}

/// The variable of what belongs to a task.
#[derive(Deserialize)]
struct TaskVariables {
    #[serde(rename = "taskId")]
    task_id: String,
}

/// The variables of a history.
#[derive(Deserialize)]
struct EventsVariables {
    #[serde(rename = "projectId")]
    project_id: String,
    since: Option<String>,
}

/// Adds every resource and template.
pub(super) fn add(service: &Arc<PmService>, builder: ServerBuilder) -> ServerBuilder {
    let builder = add_people(service, builder);
    let builder = add_projects(service, builder);
    add_tasks(service, builder)
}

/// Binds a template: the variables' type, and the function that reads.
macro_rules! template {
    ($service:expr, $address:literal, $name:literal, $about:literal, $of:ty, $read:path) => {{
        let service = $service.clone();
        TemplateBuilder::new($address, $name).mime_type(JSON).description($about).handler(
            move |of: $of, context: HandlerContext| {
                let service = service.clone();
                async move { $read(&service, &context, of).await }
            },
        )
    }};
}

/// Binds a resource with a fixed address, and the function that reads it.
macro_rules! fixed {
    ($service:expr, $address:literal, $name:literal, $about:literal, $read:path) => {{
        let service = $service.clone();
        ResourceBuilder::new($address, $name).mime_type(JSON).description($about).handler(
            move |context: HandlerContext| {
                let service = service.clone();
                async move { $read(&service, &context).await }
            },
        )
    }};
}

fn add_people(service: &Arc<PmService>, builder: ServerBuilder) -> ServerBuilder {
    builder
        .resource(fixed!(service, "agent://me", "My Agent", "自分のエージェント情報 / who you are", me))
        .resource(fixed!(
            service,
            "session://current",
            "Current Session",
            "現在のセッション情報 / the session a call without session_id uses",
            current_session
        ))
        .template(template!(service, "agent://{id}", "Agent by ID", "One agent.", IdVariables, agent))
        .template(template!(service, "session://{id}", "Session by ID", "One session of yours.", IdVariables, session))
}

fn add_projects(service: &Arc<PmService>, builder: ServerBuilder) -> ServerBuilder {
    builder
        .template(template!(
            service,
            "project://{id}",
            "Project by ID",
            "A project and its people.",
            IdVariables,
            project
        ))
        .template(template!(service, "project://{id}/board", "Project board", "Tasks by status.", IdVariables, board))
        .template(template!(service, "project://{id}/ready", "Ready tasks", "What can start now.", IdVariables, ready))
        .template(template!(
            service,
            "events://{projectId}{?since}",
            "Project history",
            "What happened, oldest first.",
            EventsVariables,
            events
        ))
}

fn add_tasks(service: &Arc<PmService>, builder: ServerBuilder) -> ServerBuilder {
    builder
        .template(template!(service, "task://{id}", "Task by ID", "A task, as data and as a page.", IdVariables, task))
        .template(template!(service, "context://{taskId}", "Task Context", "What was learnt.", TaskVariables, contexts))
        .template(template!(
            service,
            "handoff://{taskId}",
            "Task Handoff",
            "The handoff that waits, else the last.",
            TaskVariables,
            handoff
        ))
        .template(template!(service, "claim://{taskId}", "Task Claim", "Who holds a task.", TaskVariables, claim))
}

async fn me(service: &PmService, context: &HandlerContext) -> Result<ResourceContents, HandlerError> {
    to_contents("agent://me", service.ask(context, GetMyProfile {}).await, 0)
}

async fn current_session(service: &PmService, context: &HandlerContext) -> Result<ResourceContents, HandlerError> {
    let uri = "session://current";
    match service.ask(context, GetSession::default()).await {
        // Several sessions are no error to someone who only looks.
        Err(fault) if fault.code == Code::SessionAmbiguous => {
            let mine = service.caller(context).await.map_err(|fault| resource_fault(uri, &fault))?.agent_id().cloned();
            let all =
                service.ask(context, ListSessions::default()).await.map_err(|fault| resource_fault(uri, &fault))?;
            let sessions: Vec<_> =
                all.sessions.into_iter().filter(|row| Some(&row.session.agent_id) == mine.as_ref()).collect();
            to_contents(uri, Ok(json!({"sessions": sessions})), 0)
        }
        other => to_contents(uri, other, 0),
    }
}

async fn agent(
    service: &PmService,
    context: &HandlerContext,
    of: IdVariables,
) -> Result<ResourceContents, HandlerError> {
    let uri = format!("agent://{}", of.id);
    // A malformed id is reported like one that does not exist, with the address.
    let agent_id = AgentId::parse(&of.id).map_err(|fault| resource_fault(&uri, &fault))?;
    to_contents(&uri, service.ask(context, GetAgent { agent_id }).await, BRIEFLY)
}

async fn session(
    service: &PmService,
    context: &HandlerContext,
    of: IdVariables,
) -> Result<ResourceContents, HandlerError> {
    let uri = format!("session://{}", of.id);
    // Another agent's session is not found, which is decided by the action.
    let session_id = SessionId::parse(&of.id).map_err(|fault| resource_fault(&uri, &fault))?;
    to_contents(&uri, service.ask(context, GetSession { session_id: Some(session_id) }).await, 0)
}

async fn project(
    service: &PmService,
    context: &HandlerContext,
    of: IdVariables,
) -> Result<ResourceContents, HandlerError> {
    let uri = format!("project://{}", of.id);
    let project_id = ProjectRef::parse(&of.id).map_err(|fault| resource_fault(&uri, &fault))?;
    to_contents(&uri, service.ask(context, GetProject { project_id }).await, BRIEFLY)
}

async fn board(
    service: &PmService,
    context: &HandlerContext,
    of: IdVariables,
) -> Result<ResourceContents, HandlerError> {
    // The address is repeated as it was asked for, by key or by id.
    let uri = format!("project://{}/board", of.id);
    let project_id = ProjectRef::parse(&of.id).map_err(|fault| resource_fault(&uri, &fault))?;
    // One list per status, each with its own cursor.
    let mut columns = serde_json::Map::new();
    for status in TaskStatus::ALL {
        let wish = ListTasks {
            project_id: Some(project_id.clone()),
            status: vec![*status],
            sort: Some(TaskSort::Priority),
            limit: Some(COLUMN),
            ..ListTasks::default()
        };
        let tasks = service.ask(context, wish).await.map_err(|fault| resource_fault(&uri, &fault))?;
        columns.insert(status.to_string(), json!(tasks));
    }
    to_contents(&uri, Ok(Value::Object(columns)), BRIEFLY)
}

async fn ready(
    service: &PmService,
    context: &HandlerContext,
    of: IdVariables,
) -> Result<ResourceContents, HandlerError> {
    let uri = format!("project://{}/ready", of.id);
    let project_id = ProjectRef::parse(&of.id).map_err(|fault| resource_fault(&uri, &fault))?;
    let wish = GetReadyTasks { project_id: Some(project_id), ..GetReadyTasks::default() };
    to_contents(&uri, service.ask(context, wish).await, 0)
}

async fn events(
    service: &PmService,
    context: &HandlerContext,
    of: EventsVariables,
) -> Result<ResourceContents, HandlerError> {
    let uri = format!("events://{}", of.project_id);
    let project_id = ProjectRef::parse(&of.project_id).map_err(|fault| resource_fault(&uri, &fault))?;
    // Variables of a template are texts.
    let since = of.since.map(|text| text.parse::<i64>()).transpose();
    let since_seq = since.map_err(|_| HandlerError::invalid_params("`since` must be a number"))?;
    let wish = GetHistory { project_id: Some(project_id), since_seq, ..GetHistory::default() };
    to_contents(&uri, service.ask(context, wish).await, 0)
}

async fn task(
    service: &PmService,
    context: &HandlerContext,
    of: IdVariables,
) -> Result<ResourceContents, HandlerError> {
    let uri = format!("task://{}", of.id);
    let name = TaskRef::parse(&of.id).map_err(|fault| resource_fault(&uri, &fault))?;
    let detail = service.ask(context, GetTask::of(name)).await.map_err(|fault| resource_fault(&uri, &fault))?;
    // Markdown beside JSON: clients that show resources to people prefer it.
    let page = text::task_page(&detail, service.lang());
    Ok(to_contents(&uri, Ok(detail), BRIEFLY)?.and_text(None, Some("text/markdown"), page))
}

/// One part of what surrounds a task.
async fn part(
    service: &PmService,
    context: &HandlerContext,
    uri: &str,
    of: TaskVariables,
    section: Section,
) -> Result<Value, HandlerError> {
    let task_id = TaskRef::parse(&of.task_id).map_err(|fault| resource_fault(uri, &fault))?;
    // One part alone has the room of all.
    let wish = GetTask { task_id, include: vec![section], max_bytes: None };
    let detail = service.ask(context, wish).await.map_err(|fault| resource_fault(uri, &fault))?;
    let mut answer = match section {
        Section::Contexts => json!({"task_id": detail.task.id, "contexts": detail.contexts}),
        Section::Handoff => json!({"task_id": detail.task.id, "handoff": detail.handoff}),
        _ => json!({"task_id": detail.task.id, "claim": detail.claim, "claim_history": detail.claim_history}),
    };
    // A reader must know when the part was cut.
    if detail.truncated.iter().any(|part| part == section.as_str()) {
        answer["truncated"] = json!([section]);
    }
    Ok(answer)
}

async fn contexts(
    service: &PmService,
    context: &HandlerContext,
    of: TaskVariables,
) -> Result<ResourceContents, HandlerError> {
    let uri = format!("context://{}", of.task_id);
    to_contents(&uri, Ok(part(service, context, &uri, of, Section::Contexts).await?), BRIEFLY)
}

async fn handoff(
    service: &PmService,
    context: &HandlerContext,
    of: TaskVariables,
) -> Result<ResourceContents, HandlerError> {
    let uri = format!("handoff://{}", of.task_id);
    to_contents(&uri, Ok(part(service, context, &uri, of, Section::Handoff).await?), BRIEFLY)
}

async fn claim(
    service: &PmService,
    context: &HandlerContext,
    of: TaskVariables,
) -> Result<ResourceContents, HandlerError> {
    let uri = format!("claim://{}", of.task_id);
    to_contents(&uri, Ok(part(service, context, &uri, of, Section::Claim).await?), 0)
}

fn to_contents<T: Serialize>(
    uri: &str,
    answer: Result<T, PmFault>,
    ttl_ms: u64,
) -> Result<ResourceContents, HandlerError> {
    let answer = answer.map_err(|fault| resource_fault(uri, &fault))?;
    Ok(ResourceContents::json(&RawJson::from_value(&answer))
        .fresh_for(CacheHints { ttl_ms, scope: CacheScope::Private }))
}

/// What does not exist, or cannot be an address, is missing; every other refusal says why.
fn resource_fault(uri: &str, fault: &PmFault) -> HandlerError {
    match fault.code {
        Code::NotFound | Code::InvalidArgument => HandlerError::resource_not_found(uri),
        _ => refused(fault),
    }
}
