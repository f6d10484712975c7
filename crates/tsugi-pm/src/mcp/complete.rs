//! Suggestions for ids while a person types an address or a prompt's argument.

use std::sync::Arc;

use tsugi_protocol::mcp::completion::Reference;
use tsugi_protocol::serve::{Builder, CompletionRequest, Completions, Context};

use super::service::{Service, refused};
use crate::action::list::ListTasks;
use crate::action::people::{ListAgents, ListSessions};
use crate::action::project::ListProjects;
use crate::domain::fault::Fault;

/// How many things are looked through.
const LOOKED_AT: i64 = 200;

/// Adds completion.
pub(super) fn add(service: &Arc<Service>, builder: Builder) -> Builder {
    let service = service.clone();
    builder.completion(move |request, context| {
        let service = service.clone();
        async move { complete(&service, &request, &context).await.map_err(|fault| refused(&fault)) }
    })
}

/// What kind of thing an argument names.
#[derive(Clone, Copy)]
enum Kind {
    Agent,
    Project,
    Session,
    Task,
}

fn kind(request: &CompletionRequest) -> Option<Kind> {
    let scheme = match &request.reference {
        Reference::Resource(address) => address.split("://").next().unwrap_or_default(),
        Reference::Prompt(_) => "",
    };
    match (request.argument.as_str(), scheme) {
        ("task_id" | "taskId", _) | ("id", "task") => Some(Kind::Task),
        ("project_id" | "projectId", _) | ("id", "project") => Some(Kind::Project),
        ("session_id", _) | ("id", "session") => Some(Kind::Session),
        ("id", "agent") => Some(Kind::Agent),
        _ => None,
    }
}

async fn complete(service: &Service, request: &CompletionRequest, context: &Context) -> Result<Completions, Fault> {
    let Some(kind) = kind(request) else { return Ok(Completions::default()) };
    let known = names(service, context, kind).await?;
    Ok(Completions::starting_with(&request.value, known))
}

async fn names(service: &Service, context: &Context, kind: Kind) -> Result<Vec<String>, Fault> {
    let limit = Some(LOOKED_AT);
    Ok(match kind {
        Kind::Task => {
            let found = service.ask(context, ListTasks { limit, ..ListTasks::default() }).await?.tasks;
            found.into_iter().flat_map(|task| [task.reference, task.id.to_string()]).collect()
        }
        Kind::Project => {
            let found = service.ask(context, ListProjects::default()).await?.projects;
            found.into_iter().map(|project| project.id.to_string()).collect()
        }
        Kind::Agent => {
            let found = service.ask(context, ListAgents { limit, ..ListAgents::default() }).await?.agents;
            found.into_iter().map(|agent| agent.id.to_string()).collect()
        }
        Kind::Session => {
            let mine = service.caller(context).await?.agent_id;
            let found = service.ask(context, ListSessions { limit }).await?.sessions;
            let mine = found.into_iter().filter(|row| Some(&row.session.agent_id) == mine.as_ref());
            mine.map(|row| row.session.id.to_string()).collect()
        }
    })
}
