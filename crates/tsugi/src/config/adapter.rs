//! Other programs' configuration files, turned into ours, with a word about everything that got lost.
//!
//! Each adapter applies its program's own rules for variables, so that a value means here what it meant
//! there. Secrets that stand in such a file are not copied into ours: they go into an environment file
//! of their own, which the configuration names.

mod claude;
mod codex;
mod cursor;
mod draft;
pub(crate) mod export;
mod gemini;
mod translate;
pub(crate) mod tsugi_entry;
mod vscode;
mod windsurf;
pub(crate) mod write;
mod zed;

use std::path::{Path, PathBuf};

use super::document::{ConfigDocument, DocumentFormat};
use super::problem::{ConfigProblem, ConfigProblems};
use draft::ServerDraft;

/// A program whose files we read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum ClientProgram {
    ClaudeDesktop,
    ClaudeCode,
    Cursor,
    VsCode,
    Gemini,
    Codex,
    Windsurf,
    Zed,
}

/// Whose servers a file holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ClientScope {
    /// Those of one project.
    Project,
    /// Those of the user, in every project.
    User,
}

/// Where files are imported from, which decides what they mean.
#[derive(Debug, Clone, Default)]
pub(crate) struct ImportContext {
    pub(crate) home: Option<PathBuf>,
    /// The project. Claude Code keeps servers of many projects in one file.
    pub(crate) directory: Option<PathBuf>,
}

/// The servers of one map in a program's file. A file with two such maps is imported as two of these.
#[derive(Debug)]
pub(crate) struct ImportedFile {
    pub(crate) client: ClientProgram,
    pub(crate) path: PathBuf,
    pub(crate) scope: ClientScope,
    /// The keys that lead to the map.
    pub(crate) section: Vec<String>,
    /// The project.
    directory: Option<PathBuf>,
    servers: Vec<ServerDraft>,
    /// Warnings about the file as a whole.
    notes: Vec<String>,
}

impl ClientProgram {
    /// All of them, in the order in which their files are looked for.
    pub(crate) const ALL: [ClientProgram; 8] = [
        ClientProgram::ClaudeDesktop,
        ClientProgram::ClaudeCode,
        ClientProgram::Cursor,
        ClientProgram::VsCode,
        ClientProgram::Gemini,
        ClientProgram::Codex,
        ClientProgram::Windsurf,
        ClientProgram::Zed,
    ];

    /// What people call it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            ClientProgram::ClaudeDesktop => "Claude Desktop",
            ClientProgram::ClaudeCode => "Claude Code",
            ClientProgram::Cursor => "Cursor",
            ClientProgram::VsCode => "VS Code",
            ClientProgram::Gemini => "Gemini CLI",
            ClientProgram::Codex => "Codex",
            ClientProgram::Windsurf => "Windsurf",
            ClientProgram::Zed => "Zed",
        }
    }

    /// The word for it on the command line, and in a name that two programs use.
    pub(crate) fn word(self) -> &'static str {
        match self {
            ClientProgram::ClaudeDesktop => "claude-desktop",
            ClientProgram::ClaudeCode => "claude",
            ClientProgram::Cursor => "cursor",
            ClientProgram::VsCode => "vscode",
            ClientProgram::Gemini => "gemini",
            ClientProgram::Codex => "codex",
            ClientProgram::Windsurf => "windsurf",
            ClientProgram::Zed => "zed",
        }
    }

    /// Where it keeps its file: first below the project, then below the home directory.
    fn places(self) -> (&'static [&'static str], &'static [&'static str]) {
        match self {
            ClientProgram::ClaudeDesktop => (
                &[],
                &[
                    ".config/Claude/claude_desktop_config.json",
                    "Library/Application Support/Claude/claude_desktop_config.json",
                ],
            ),
            ClientProgram::ClaudeCode => (&[".mcp.json"], &[".claude.json"]),
            ClientProgram::Cursor => (&[".cursor/mcp.json"], &[".cursor/mcp.json"]),
            ClientProgram::VsCode => (
                &[".vscode/mcp.json"],
                &[".config/Code/User/mcp.json", "Library/Application Support/Code/User/mcp.json"],
            ),
            ClientProgram::Gemini => (&[".gemini/settings.json"], &[".gemini/settings.json"]),
            ClientProgram::Codex => (&[".codex/config.toml"], &[".codex/config.toml"]),
            ClientProgram::Windsurf => (&[], &[".codeium/windsurf/mcp_config.json"]),
            ClientProgram::Zed => (&[".zed/settings.json"], &[".config/zed/settings.json"]),
        }
    }

    /// The files of all programs that exist, each once.
    pub(crate) fn find(project: &Path, home: Option<&Path>) -> Vec<(ClientProgram, PathBuf)> {
        let mut found: Vec<(ClientProgram, PathBuf)> = Vec::new();
        for client in ClientProgram::ALL {
            let (near, far) = client.places();
            let near = near.iter().map(|place| project.join(place));
            let far = home.into_iter().flat_map(|home| far.iter().map(|place| home.join(place)));
            for path in near.chain(far).filter(|path| path.is_file()) {
                // In the home directory, the project's file and the user's file may be the same one.
                if found.iter().all(|(_, earlier)| *earlier != path) {
                    found.push((client, path));
                }
            }
        }
        found
    }

    /// The program that a file belongs to, by its name and by what stands in it.
    pub(crate) fn guess(path: &Path, document: &ConfigDocument) -> Option<ClientProgram> {
        // The usual place of a file is a surer sign than its keys, which several programs share.
        let by_place = ClientProgram::ALL.into_iter().find(|client| {
            let (near, far) = client.places();
            near.iter().chain(far).any(|place| path.ends_with(place))
        });
        let has = |key: &str| document.root.get(key).is_some();
        let by_content = || match () {
            () if has("mcp_servers") => Some(ClientProgram::Codex),
            () if has("context_servers") => Some(ClientProgram::Zed),
            () if has("inputs") || has("servers") => Some(ClientProgram::VsCode),
            // These two have no key of their own, so a copy in another directory is known by its name.
            () if path.ends_with("claude_desktop_config.json") => Some(ClientProgram::ClaudeDesktop),
            () if path.ends_with("mcp_config.json") => Some(ClientProgram::Windsurf),
            // Most programs use this key, so it comes last.
            () if has("mcpServers") => Some(ClientProgram::ClaudeCode),
            () => None,
        };
        by_place.or_else(by_content)
    }

    /// Whether a file of this program is a project's or the user's.
    fn scope(self, path: &Path, context: &ImportContext) -> ClientScope {
        let (_, far) = self.places();
        // A file at any other path belongs to the project, even if it is a copy of a user's file.
        let is_of_user = |home: &PathBuf| far.iter().any(|place| home.join(place) == path);
        if context.home.as_ref().is_some_and(is_of_user) { ClientScope::User } else { ClientScope::Project }
    }

    /// The key of the map of servers.
    fn servers_key(self) -> &'static str {
        match self {
            ClientProgram::VsCode => "servers",
            ClientProgram::Zed => "context_servers",
            ClientProgram::Codex => "mcp_servers",
            _ => "mcpServers",
        }
    }

    /// How its files are written.
    pub(crate) fn format(self) -> DocumentFormat {
        if self == ClientProgram::Codex { DocumentFormat::Toml } else { DocumentFormat::Json }
    }
}

/// Reads a program's file. Without a `client`, the program is recognised by the file.
pub(crate) fn import(
    path: &Path,
    text: String,
    client: Option<ClientProgram>,
    context: &ImportContext,
) -> Result<Vec<ImportedFile>, ConfigProblems> {
    // The content is needed to recognise the program, so until then the format follows from the name.
    let format = client.map_or_else(|| foreign_format(path), ClientProgram::format);
    let (document, warnings) = ConfigDocument::parse_foreign(path, text, format).map_err(ConfigProblems)?;
    let Some(client) = client.or_else(|| ClientProgram::guess(path, &document)) else {
        let words = ClientProgram::ALL.map(ClientProgram::word).join(", ");
        let problem = ConfigProblem::new(format!("it is not clear which program `{}` belongs to", path.display()));
        return Err(problem.with_hint(format!("say it: one of {words}")).into());
    };
    let mut imported = ImportedFile {
        client,
        path: path.to_owned(),
        scope: client.scope(path, context),
        section: vec![client.servers_key().to_owned()],
        directory: context.directory.clone(),
        servers: Vec::new(),
        notes: warnings.into_iter().map(|warning| warning.message).collect(),
    };
    match client {
        ClientProgram::ClaudeDesktop | ClientProgram::ClaudeCode => {
            // `~/.claude.json` may hold servers of the user and of this project, which are two imports.
            return Ok(claude::read(&document, imported, context));
        }
        ClientProgram::Cursor => cursor::read(&document, &mut imported),
        ClientProgram::VsCode => vscode::read(&document, &mut imported),
        ClientProgram::Gemini => gemini::read(&document, &mut imported),
        ClientProgram::Codex => codex::read(&document, &mut imported),
        ClientProgram::Windsurf => windsurf::read(&document, &mut imported),
        ClientProgram::Zed => zed::read(&document, &mut imported),
    }
    Ok(vec![imported])
}

/// The programs write JSON with comments, except one; YAML is ours.
fn foreign_format(path: &Path) -> DocumentFormat {
    match DocumentFormat::of(path) {
        DocumentFormat::Toml => DocumentFormat::Toml,
        DocumentFormat::Json | DocumentFormat::Yaml => DocumentFormat::Json,
    }
}

impl ImportedFile {
    /// How many servers were found.
    pub(crate) fn count(&self) -> usize {
        self.servers.len()
    }

    /// The servers' names.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.servers.iter().map(|draft| draft.name.as_str())
    }

    /// Warnings about the file and about each server.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let of_server =
            |draft: &ServerDraft| draft.notes.all().map(|note| format!("{}: {note}", draft.name)).collect::<Vec<_>>();
        self.notes.iter().cloned().chain(self.servers.iter().flat_map(of_server)).collect()
    }

    /// Its path as it is written into a configuration, which other people may read: relative within the project.
    fn shown_path(&self) -> &Path {
        let relative = self.directory.as_deref().and_then(|directory| self.path.strip_prefix(directory).ok());
        relative.unwrap_or(&self.path)
    }

    /// The directory that the program would call the workspace. A user's file is used in every workspace, so it has none.
    fn workspace(&self) -> Option<&Path> {
        let folder = self.path.parent().filter(|_| self.scope == ClientScope::Project)?;
        // These directories belong to a program. The workspace is the directory around them.
        let is_project = [".vscode", ".cursor", ".zed", ".gemini", ".codex"].iter().any(|name| folder.ends_with(name));
        if is_project { folder.parent() } else { Some(folder) }
    }
}

#[cfg(test)]
mod tests;
