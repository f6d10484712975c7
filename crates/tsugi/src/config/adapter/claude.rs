//! Claude Desktop (`claude_desktop_config.json`) and Claude Code (`.mcp.json`, `~/.claude.json`).

use std::path::Path;

use super::draft::{ClientDialect, DraftNotes, ServerDraft, read_all, strings};
use super::translate::{is_name, literal, references};
use super::{ClientProgram, ClientScope, ImportContext, ImportedFile};
use crate::config::document::{ConfigDocument, ConfigNode};

/// Reads `mcpServers`, and the servers that the user has in the current project alone; those of other projects are only
/// named.
pub(super) fn read(
    document: &ConfigDocument,
    mut imported: ImportedFile,
    context: &ImportContext,
) -> Vec<ImportedFile> {
    let claude = ClaudeDialect { expands: imported.client == ClientProgram::ClaudeCode };
    if let Some(servers) = document.root.get("mcpServers") {
        read_all(servers, &claude, &mut imported);
    }
    if imported.client == ClientProgram::ClaudeCode && imported.scope == ClientScope::Project {
        refuse(&mut imported, context);
    }
    let mut private = None;
    for project in document.root.get("projects").and_then(ConfigNode::entries).unwrap_or_default() {
        let Some(servers) = project.node.get("mcpServers") else { continue };
        let names: Vec<&str> = servers.entries().unwrap_or_default().iter().map(|server| server.key.as_str()).collect();
        if names.is_empty() {
            continue;
        }
        if context.directory.as_deref() == Some(Path::new(&project.key)) {
            let section = vec!["projects".to_owned(), project.key.clone(), "mcpServers".to_owned()];
            let mut of_project = ImportedFile {
                scope: ClientScope::Project,
                section,
                servers: Vec::new(),
                notes: Vec::new(),
                path: imported.path.clone(),
                directory: imported.directory.clone(),
                client: imported.client,
            };
            read_all(servers, &claude, &mut of_project);
            private = Some(of_project);
        } else {
            let names = names.join(", ");
            imported.notes.push(format!("servers of the project {} were left out: {names}", project.key));
        }
    }
    // The file holds much else, so it is mentioned only where it has servers.
    let has_servers = imported.count() > 0 || document.root.get("mcpServers").is_some() || !imported.notes.is_empty();
    let main = (has_servers || private.is_none()).then_some(imported);
    main.into_iter().chain(private).collect()
}

/// Switches off the servers of a project's `.mcp.json` that the person has refused in Claude Code.
fn refuse(imported: &mut ImportedFile, context: &ImportContext) {
    let refused = refused_servers(context);
    for draft in imported.servers.iter_mut().filter(|draft| refused.contains(&draft.key)) {
        draft.disabled(true);
        draft.refusal = Some("it was refused in Claude Code".to_owned());
    }
}

/// `disabledMcpjsonServers` of the user's file, and of the settings of the project.
fn refused_servers(context: &ImportContext) -> Vec<String> {
    let read = |path: &Path| {
        let text = std::fs::read_to_string(path).ok()?;
        ConfigDocument::parse_foreign(path, text, ClientProgram::ClaudeCode.format()).ok().map(|(document, _)| document)
    };
    let names = |node: &ConfigNode| {
        let names =
            node.get("disabledMcpjsonServers").map(|names| strings(names).map(str::to_owned).collect::<Vec<_>>());
        names.unwrap_or_default()
    };
    let mut refused = Vec::new();
    let Some(directory) = context.directory.as_deref() else { return refused };
    if let Some(document) = context.home.as_ref().and_then(|home| read(&home.join(".claude.json"))) {
        let project = document.root.get("projects").and_then(|projects| projects.get(&directory.to_string_lossy()));
        refused.extend(project.map(names).unwrap_or_default());
    }
    let settings = [".claude/settings.json", ".claude/settings.local.json"].map(|name| directory.join(name));
    let of_user = context.home.as_ref().map(|home| home.join(".claude/settings.json"));
    for document in settings.into_iter().chain(of_user).filter_map(|path| read(&path)) {
        refused.extend(names(&document.root));
    }
    refused
}

struct ClaudeDialect {
    /// The desktop program knows no variables.
    expands: bool,
}

impl ClientDialect for ClaudeDialect {
    fn translate(&self, text: &str, notes: &mut DraftNotes) -> String {
        if !self.expands {
            return literal(text);
        }
        references(text, false, |body| {
            let name = body.split(":-").next().unwrap_or_default();
            if !is_name(name) {
                notes.push(format!("`${{{body}}}` is not a variable and was kept as text"));
                return None;
            }
            if name == body {
                notes.push(format!("{name} must be set; Claude Code would pass on the text itself"));
            }
            Some(format!("${{{body}}}"))
        })
    }

    fn field(&self, draft: &mut ServerDraft, key: &str, node: &ConfigNode) -> bool {
        match key {
            "timeout" => draft.duration("timeout", node, "ms"),
            _ => return false,
        }
        true
    }
}
