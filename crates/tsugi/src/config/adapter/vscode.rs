//! VS Code (`.vscode/mcp.json`): `servers`, with `inputs` that it would ask for.

use std::path::PathBuf;

use super::ImportedFile;
use super::draft::{ClientDialect, DraftField, DraftNotes, ServerDraft, read_all, strings};
use super::translate::{references, variable_name};
use crate::config::document::{ConfigDocument, ConfigNode};

/// Reads `servers`, even from `settings.json`, where older versions keep them below `mcp`.
pub(super) fn read(document: &ConfigDocument, imported: &mut ImportedFile) {
    let root = document.root.get("mcp").unwrap_or(&document.root);
    if document.root.get("mcp").is_some() {
        imported.section.insert(0, "mcp".to_owned());
    }
    let inputs = root.get("inputs").and_then(ConfigNode::items).unwrap_or_default();
    let describe = |input: &ConfigNode| {
        let text = |key: &str| input.get(key).and_then(ConfigNode::text).unwrap_or_default().to_owned();
        (text("id"), text("description"))
    };
    let code = VsCodeDialect { editor: EditorVariables::of(imported), inputs: inputs.iter().map(describe).collect() };
    if let Some(servers) = root.get("servers") {
        read_all(servers, &code, imported);
    }
}

/// The variables that editors of this family share.
pub(super) struct EditorVariables {
    /// The workspace, and how it is written in our configuration; `None` for a file that is used in every workspace.
    workspace: Option<(PathBuf, String)>,
}

impl EditorVariables {
    pub(super) fn of(imported: &ImportedFile) -> Self {
        let workspace = imported.workspace().map(|path| {
            // A project's configuration lies in the project, and may be shared with people whose clone lies elsewhere.
            let is_here = imported.directory.as_deref() == Some(path) || path.as_os_str().is_empty();
            (path.to_owned(), if is_here { ".".to_owned() } else { path.display().to_string() })
        });
        EditorVariables { workspace }
    }

    /// A reference of an editor in our words.
    pub(super) fn reference(&self, body: &str, notes: &mut DraftNotes) -> Option<String> {
        match (body, &self.workspace) {
            ("userHome", _) => Some("${HOME}".to_owned()),
            ("pathSeparator" | "/", _) => Some("/".to_owned()),
            ("workspaceFolder", Some((_, written))) => {
                notes.push(format!("the workspace folder is taken to be `{written}`"));
                Some(written.clone())
            }
            ("workspaceFolderBasename", Some((path, _))) => {
                Some(path.file_name().unwrap_or_default().to_string_lossy().into_owned())
            }
            ("workspaceFolder" | "workspaceFolderBasename", None) => {
                notes.block(format!("`${{{body}}}` differs from workspace to workspace, and tsugi has none"));
                None
            }
            _ => {
                notes.push(format!("`${{{body}}}` is not known and was kept as text"));
                None
            }
        }
    }
}

struct VsCodeDialect {
    editor: EditorVariables,
    /// What would be asked for: id and description.
    inputs: Vec<(String, String)>,
}

impl VsCodeDialect {
    /// A server starts without a person at hand, so an input becomes a variable that must be set.
    fn input(&self, id: &str, notes: &mut DraftNotes) -> String {
        let name = variable_name(id);
        let described = self.inputs.iter().find(|(known, _)| known == id).map(|(_, description)| description.as_str());
        let description = described.unwrap_or_default().replace(['{', '}', '$'], "");
        notes.push(format!("VS Code asks for `{id}`; here the variable {name} must be set"));
        if description.is_empty() { format!("${{{name}}}") } else { format!("${{{name}:?{description}}}") }
    }
}

impl ClientDialect for VsCodeDialect {
    fn translate(&self, text: &str, notes: &mut DraftNotes) -> String {
        references(text, false, |body| match body.split_once(':') {
            Some(("env", name)) => Some(format!("${{{name}:-}}")),
            Some(("input", id)) => Some(self.input(id, notes)),
            _ => self.editor.reference(body, notes),
        })
    }

    fn field(&self, draft: &mut ServerDraft, key: &str, node: &ConfigNode) -> bool {
        match key {
            "sandboxEnabled" if node.text() == Some("true") && draft.get("sandbox").is_none() => {
                draft.set("sandbox", DraftField::Text("default".to_owned()));
            }
            "sandboxEnabled" | "gallery" | "version" => {}
            "sandbox" => self.sandbox(draft, node),
            _ => return false,
        }
        true
    }
}

impl VsCodeDialect {
    /// What may be written is the same idea; what may not be read is the other way round with us.
    fn sandbox(&self, draft: &mut ServerDraft, node: &ConfigNode) {
        let write = node.get("filesystem").and_then(|files| files.get("allowWrite"));
        let write: Vec<String> = write
            .map(|node| strings(node).map(|path| self.translate(path, &mut draft.notes)).collect())
            .unwrap_or_default();
        let domains = node.get("network").and_then(|network| network.get("allowedDomains"));
        let net = if domains.is_some_and(|domains| strings(domains).next().is_some()) { "all" } else { "none" };
        if net == "all" {
            draft.note("single domains cannot be allowed: the sandbox allows the whole network");
        }
        for (map, key) in [("filesystem", "denyRead"), ("filesystem", "denyWrite"), ("network", "deniedDomains")] {
            if node.get(map).and_then(|map| map.get(key)).is_some() {
                draft.lost(&format!("sandbox.{map}.{key}"));
            }
        }
        draft.set("sandbox", DraftField::Lists(vec![("write", write), ("net", vec![net.to_owned()])]));
    }
}
