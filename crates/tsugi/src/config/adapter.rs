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
pub(crate) mod point;
mod translate;
mod vscode;
mod windsurf;
pub(crate) mod write;
mod zed;

use std::path::{Path, PathBuf};

use super::document::{Document, Format};
use super::problem::{Problem, Problems};
use draft::Draft;

/// A program whose files we read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Client {
    ClaudeDesktop,
    ClaudeCode,
    Cursor,
    VsCode,
    Gemini,
    Codex,
    Windsurf,
    Zed,
}

/// What an imported file means.
#[derive(Debug)]
pub(crate) struct Imported {
    pub(crate) client: Client,
    pub(crate) path: PathBuf,
    servers: Vec<Draft>,
    /// The directory whose own servers are taken too, of a program that keeps them in one file for all directories.
    here: Option<PathBuf>,
    /// What is to be said about the file as a whole.
    notes: Vec<String>,
}

impl Client {
    /// All of them, in the order in which their files are looked for.
    pub(crate) const ALL: [Client; 8] = [
        Client::ClaudeDesktop,
        Client::ClaudeCode,
        Client::Cursor,
        Client::VsCode,
        Client::Gemini,
        Client::Codex,
        Client::Windsurf,
        Client::Zed,
    ];

    /// What people call it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Client::ClaudeDesktop => "Claude Desktop",
            Client::ClaudeCode => "Claude Code",
            Client::Cursor => "Cursor",
            Client::VsCode => "VS Code",
            Client::Gemini => "Gemini CLI",
            Client::Codex => "Codex",
            Client::Windsurf => "Windsurf",
            Client::Zed => "Zed",
        }
    }

    /// The word for it on the command line, and in a name that two programs use.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Client::ClaudeDesktop => "claude-desktop",
            Client::ClaudeCode => "claude",
            Client::Cursor => "cursor",
            Client::VsCode => "vscode",
            Client::Gemini => "gemini",
            Client::Codex => "codex",
            Client::Windsurf => "windsurf",
            Client::Zed => "zed",
        }
    }

    /// Where it keeps its file: first below the project, then below the home directory.
    fn places(self) -> (&'static [&'static str], &'static [&'static str]) {
        match self {
            Client::ClaudeDesktop => (
                &[],
                &[
                    ".config/Claude/claude_desktop_config.json",
                    "Library/Application Support/Claude/claude_desktop_config.json",
                ],
            ),
            Client::ClaudeCode => (&[".mcp.json"], &[".claude.json"]),
            Client::Cursor => (&[".cursor/mcp.json"], &[".cursor/mcp.json"]),
            Client::VsCode => (
                &[".vscode/mcp.json"],
                &[".config/Code/User/mcp.json", "Library/Application Support/Code/User/mcp.json"],
            ),
            Client::Gemini => (&[".gemini/settings.json"], &[".gemini/settings.json"]),
            Client::Codex => (&[".codex/config.toml"], &[".codex/config.toml"]),
            Client::Windsurf => (&[], &[".codeium/windsurf/mcp_config.json"]),
            Client::Zed => (&[".zed/settings.json"], &[".config/zed/settings.json"]),
        }
    }

    /// The files of all programs that exist, each once.
    pub(crate) fn find(project: &Path, home: Option<&Path>) -> Vec<(Client, PathBuf)> {
        let mut found: Vec<(Client, PathBuf)> = Vec::new();
        for client in Client::ALL {
            let (near, far) = client.places();
            let near = near.iter().map(|place| project.join(place));
            let far = home.into_iter().flat_map(|home| far.iter().map(|place| home.join(place)));
            for path in near.chain(far).filter(|path| path.is_file()) {
                if found.iter().all(|(_, earlier)| *earlier != path) {
                    found.push((client, path));
                }
            }
        }
        found
    }

    /// The program that a file belongs to, by its name and by what stands in it.
    pub(crate) fn guess(path: &Path, document: &Document) -> Option<Client> {
        let by_place = Client::ALL.into_iter().find(|client| {
            let (near, far) = client.places();
            near.iter().chain(far).any(|place| path.ends_with(place))
        });
        let has = |key: &str| document.root.get(key).is_some();
        let by_content = || match () {
            () if has("mcp_servers") => Some(Client::Codex),
            () if has("context_servers") => Some(Client::Zed),
            () if has("inputs") || has("servers") => Some(Client::VsCode),
            () if path.ends_with("claude_desktop_config.json") => Some(Client::ClaudeDesktop),
            () if path.ends_with("mcp_config.json") => Some(Client::Windsurf),
            () if has("mcpServers") => Some(Client::ClaudeCode),
            () => None,
        };
        by_place.or_else(by_content)
    }

    /// How its files are written.
    pub(crate) fn format(self) -> Format {
        if self == Client::Codex { Format::Toml } else { Format::Json }
    }
}

/// Reads a program's file; without a `client`, it is recognised. Of a file that knows the servers of many directories,
/// those of `here` are taken.
pub(crate) fn import(
    path: &Path,
    text: String,
    client: Option<Client>,
    here: Option<&Path>,
) -> Result<Imported, Problems> {
    let format = client.map_or_else(|| foreign_format(path), Client::format);
    let document = Document::parse(path, text, format).map_err(Problems)?;
    let Some(client) = client.or_else(|| Client::guess(path, &document)) else {
        let words = Client::ALL.map(Client::word).join(", ");
        let problem = Problem::new(format!("it is not clear whose file `{}` is", path.display()));
        return Err(problem.with_hint(format!("say it: one of {words}")).into());
    };
    let here = here.map(Path::to_owned);
    let mut imported = Imported { client, path: path.to_owned(), servers: Vec::new(), here, notes: Vec::new() };
    match client {
        Client::ClaudeDesktop | Client::ClaudeCode => claude::read(&document, &mut imported),
        Client::Cursor => cursor::read(&document, &mut imported),
        Client::VsCode => vscode::read(&document, &mut imported),
        Client::Gemini => gemini::read(&document, &mut imported),
        Client::Codex => codex::read(&document, &mut imported),
        Client::Windsurf => windsurf::read(&document, &mut imported),
        Client::Zed => zed::read(&document, &mut imported),
    }
    Ok(imported)
}

/// The programs write JSON with comments, except one; YAML is ours.
fn foreign_format(path: &Path) -> Format {
    match Format::of(path) {
        Format::Toml => Format::Toml,
        Format::Json | Format::Yaml => Format::Json,
    }
}

impl Imported {
    /// How many servers were found.
    pub(crate) fn count(&self) -> usize {
        self.servers.len()
    }

    /// The servers' names.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.servers.iter().map(|draft| draft.name.as_str())
    }

    /// Everything that is to be said, about the file and about each server.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let of_server =
            |draft: &Draft| draft.notes.iter().map(|note| format!("{}: {note}", draft.name)).collect::<Vec<_>>();
        self.notes.iter().cloned().chain(self.servers.iter().flat_map(of_server)).collect()
    }

    /// Whether a key of a map of directories is the directory whose servers are taken.
    fn is_here(&self, key: &str) -> bool {
        self.here.as_deref() == Some(Path::new(key))
    }

    /// The directory that the program would call the workspace, where the file lies in one.
    fn workspace(&self) -> Option<&Path> {
        let folder = self.path.parent()?;
        let is_project = [".vscode", ".cursor", ".zed", ".gemini", ".codex"].iter().any(|name| folder.ends_with(name));
        if is_project { folder.parent() } else { Some(folder) }
    }
}

#[cfg(test)]
mod tests;
