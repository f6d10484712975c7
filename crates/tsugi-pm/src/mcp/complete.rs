//! Suggestions for ids while a person types an address or a prompt's argument.

use std::sync::Arc;

use tsugi_protocol::mcp::completion::Reference;
use tsugi_protocol::serve::{Builder, CompletionRequest, Completions, Context};

use super::service::{Service, refused};
use crate::action::name::{FindNames, NameKind};
use crate::domain::fault::Fault;

/// Adds completion.
pub(super) fn add(service: &Arc<Service>, builder: Builder) -> Builder {
    let service = service.clone();
    builder.completion(move |request, context| {
        let service = service.clone();
        async move { complete(&service, &request, &context).await.map_err(|fault| refused(&fault)) }
    })
}

/// What kind of thing an argument names.
fn kind(request: &CompletionRequest) -> Option<NameKind> {
    let scheme = match &request.reference {
        Reference::Resource(address) => address.split("://").next().unwrap_or_default(),
        Reference::Prompt(_) => "",
    };
    match (request.argument.as_str(), scheme) {
        ("task_id" | "taskId", _) | ("id", "task") => Some(NameKind::Task),
        ("project_id" | "projectId", _) | ("id", "project") => Some(NameKind::Project),
        ("session_id", _) | ("id", "session") => Some(NameKind::Session),
        ("id", "agent") => Some(NameKind::Agent),
        _ => None,
    }
}

async fn complete(service: &Service, request: &CompletionRequest, context: &Context) -> Result<Completions, Fault> {
    let Some(kind) = kind(request) else { return Ok(Completions::default()) };
    let names = service.ask(context, FindNames { kind, prefix: request.value.clone() }).await?;
    Ok(Completions::starting_with("", names))
}
