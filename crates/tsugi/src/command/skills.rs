//! `tsugi skills`: lists the skills of the servers, and prints one after its digest was checked.

use clap::Subcommand;
use ring::digest::{SHA256, digest};
use serde_json::{Value, json};
use tsugi_client::Server;
use tsugi_protocol::answer::Call;
use tsugi_protocol::json::JsonObject;
use tsugi_protocol::mcp::Method;
use tsugi_protocol::mcp::extension::SKILLS;

use crate::app::App;
use crate::failure::CommandFailure;
use crate::interactive_call::InteractiveCall;
use crate::locate::reach_all;
use crate::output::OutputFormat;
use crate::output::table::TextTable;
use crate::report::exit::CommandExit;

/// How many pages of one server's list are read.
const MOST_PAGES: usize = 100;

/// List the skills of the servers, or show one
#[derive(Debug, clap::Args)]
#[command(
    after_long_help = "Examples:\n  tsugi skills list\n  tsugi skills show git-workflow\n  tsugi skills show team/git-workflow"
)]
pub(crate) struct SkillsArgs {
    #[command(subcommand)]
    order: SkillsCommand,
    /// Print data only
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

#[derive(Debug, Subcommand)]
enum SkillsCommand {
    /// List the skills of the servers
    List,
    /// Print a skill's SKILL.md
    Show {
        /// The skill: its name, server/name, or its URI
        skill: String,
    },
}

/// A skill, and who has it.
struct ServedSkill {
    server: Server,
    entry: Value,
}

impl ServedSkill {
    fn uri(&self) -> &str {
        self.entry["uri"].as_str().unwrap_or_default()
    }

    fn front(&self, key: &str) -> &str {
        self.entry["frontmatter"][key].as_str().unwrap_or_default()
    }

    fn is_called(&self, word: &str) -> bool {
        let name = self.front("name");
        self.uri() == word || name == word || word == format!("{}/{name}", self.server.name())
    }

    /// The digest that its file should have; `None` where the server gives none.
    fn digest(&self) -> Option<&str> {
        let files = self.entry["resources"].as_array()?;
        files.iter().find(|file| file["uri"] == self.entry["uri"])?["digest"].as_str()
    }
}

pub(crate) async fn run(app: &App, args: &SkillsArgs) -> Result<CommandExit, CommandFailure> {
    let (skills, exit) = served(app).await?;
    match &args.order {
        SkillsCommand::List => {
            list(app, &skills)?;
            Ok(exit)
        }
        SkillsCommand::Show { skill } => show(app, &skills, skill).await,
    }
}

/// The skills of every server that declares some.
async fn served(app: &App) -> Result<(Vec<ServedSkill>, CommandExit), CommandFailure> {
    let loaded = app.configuration()?;
    let (ready, exit) = reach_all(app, &loaded, |_| true).await?;
    let talk = InteractiveCall::non_interactive(app);
    let mut skills = Vec::new();
    for (server, catalog) in &ready {
        if !catalog.identity.capabilities.has_extension(SKILLS) {
            continue;
        }
        let mut params = json!({});
        for _ in 0..MOST_PAGES {
            let call = Call::new(Method::from("skills/list"), JsonObject::from(params.clone()));
            let page = talk.run_to_result(server, server.name(), call).await?.body;
            let page: Value = page.raw().to_lossy().unwrap_or_default();
            let entries = page["skills"].as_array().cloned().unwrap_or_default();
            skills.extend(entries.into_iter().map(|entry| ServedSkill { server: server.clone(), entry }));
            let next = page["nextCursor"].clone();
            // A server that gives the same cursor again would never end.
            if next.is_null() || next == params["cursor"] {
                break;
            }
            params = json!({"cursor": next});
        }
    }
    Ok((skills, exit))
}

fn list(app: &App, skills: &[ServedSkill]) -> Result<(), CommandFailure> {
    match app.output.form() {
        OutputFormat::Json => {
            let described = skills.iter().map(|skill| {
                let mut described = skill.entry.clone();
                described["server"] = skill.server.name().into();
                described
            });
            app.output.json(&json!({"skills": described.collect::<Vec<_>>()}))?;
        }
        OutputFormat::Text => {
            let mut table = TextTable::new(["server", "name", "uri", "files", "description"]);
            for skill in skills {
                let files = skill.entry["resources"].as_array().map(|files| files.len().to_string());
                table.row([
                    skill.server.name().to_owned(),
                    skill.front("name").to_owned(),
                    skill.uri().to_owned(),
                    files.unwrap_or_else(|| "dynamic".to_owned()),
                    super::first_line(Some(skill.front("description").to_owned())),
                ]);
            }
            app.output.table(&table)?;
        }
    }
    Ok(())
}

async fn show(app: &App, skills: &[ServedSkill], word: &str) -> Result<CommandExit, CommandFailure> {
    let found: Vec<&ServedSkill> = skills.iter().filter(|skill| skill.is_called(word)).collect();
    let skill = match found.as_slice() {
        [only] => only,
        [] => return Err(CommandFailure::usage(format!("no server has a skill named `{word}`"))),
        several => {
            let names: Vec<String> =
                several.iter().map(|skill| format!("{}/{}", skill.server.name(), skill.front("name"))).collect();
            return Err(CommandFailure::usage(format!("several skills are called `{word}`: {}", names.join(", "))));
        }
    };
    let call = Call::new(Method::ResourcesRead, JsonObject::from(json!({"uri": skill.uri()})));
    let talk = InteractiveCall::non_interactive(app);
    let body = talk.run_to_result(&skill.server, skill.uri(), call).await?.body;
    let read: Value = body.raw().to_lossy().unwrap_or_default();
    let text = read["contents"][0]["text"].as_str().unwrap_or_default();
    // What a model is told to do must be what was listed.
    if let Some(expected) = skill.digest().filter(|expected| *expected != sha256(text)) {
        let message = format!("{}: the file differs from the digest that the server lists, {expected}", skill.uri());
        return Err(CommandFailure::usage(message));
    }
    match app.output.form() {
        OutputFormat::Json => {
            app.output.json(&json!({"server": skill.server.name(), "skill": skill.entry, "text": text}))?
        }
        OutputFormat::Text => app.output.data(text.trim_end_matches('\n'))?,
    }
    Ok(CommandExit::Success)
}

fn sha256(text: &str) -> String {
    let hash = digest(&SHA256, text.as_bytes());
    hash.as_ref().iter().fold("sha256:".to_owned(), |written, byte| written + &format!("{byte:02x}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_is_written_as_servers_write_it() {
        let empty = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(sha256(""), empty);
    }
}
