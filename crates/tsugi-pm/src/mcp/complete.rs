//! Suggestions for ids while a person types an address or a prompt's argument.

use std::sync::Arc;

use tsugi_protocol::mcp::completion::CompletionReference;
use tsugi_protocol::serve::{CompletionRequest, CompletionValues, HandlerContext, ServerBuilder};

use super::service::{PmService, refused};
use crate::action::name::{FindNames, NameKind};
use crate::domain::fault::PmFault;

pub(super) fn add(service: &Arc<PmService>, builder: ServerBuilder) -> ServerBuilder {
    let service = service.clone();
    builder.completion(move |request, context| {
        let service = service.clone();
        async move { complete(&service, &request, &context).await.map_err(|fault| refused(&fault)) }
    })
}

/// What kind of thing an argument names.
fn kind(request: &CompletionRequest) -> Option<NameKind> {
    let scheme = match &request.reference {
        CompletionReference::Resource(address) => address.split("://").next().unwrap_or_default(),
        CompletionReference::Prompt(_) => "",
    };
    match (request.argument.as_str(), scheme) {
        ("task_id" | "taskId", _) | ("id", "task") => Some(NameKind::Task),
        ("project_id" | "projectId", _) | ("id", "project") => Some(NameKind::Project),
        ("session_id", _) | ("id", "session") => Some(NameKind::Session),
        ("id", "agent") => Some(NameKind::Agent),
        _ => None,
    }
}

async fn complete(
    service: &PmService,
    request: &CompletionRequest,
    context: &HandlerContext,
) -> Result<CompletionValues, PmFault> {
    let Some(kind) = kind(request) else { return Ok(CompletionValues::default()) };
    let names = service.ask(context, FindNames { kind, prefix: request.value.clone() }).await?;
    Ok(CompletionValues::starting_with("", names))
}
