//! `tsugi lock`: pins what servers offer now, or accepts one change.

use std::sync::Arc;

use serde_json::json;
use tsugi_pins::{PinKey, PinKind, PinStore};

use super::diff::{looked_at, pin_store, print_reviews};
use crate::app::App;
use crate::failure::CommandFailure;
use crate::output::{OutputFormat, printable};
use crate::report::exit::CommandExit;

const EXAMPLES: &str = "\
Examples:
  tsugi lock                           pin all that the servers of the configuration offer now
  tsugi lock files                     the same for one server
  tsugi lock accept files/read         accept what changed about one tool
  tsugi lock accept files/prompt:ask   a prompt; also resource:URI, template:URI, instructions, info, command";

/// Pin what the servers offer now, or accept one change
///
/// The pins stand in `tsugi.lock` beside the configuration. Review and commit it. Programs that the sandbox or another
/// platform runs have a line each.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES, args_conflicts_with_subcommands = true)]
pub(crate) struct LockArgs {
    /// Only this server
    #[arg(value_name = "SERVER")]
    target: Option<String>,
    /// Print data only
    #[arg(long, global = true)]
    pub(crate) json: bool,
    #[command(subcommand)]
    order: Option<LockOrder>,
}

#[derive(Debug, clap::Subcommand)]
enum LockOrder {
    /// Pin what one server offers now of one thing
    Accept {
        /// The thing: SERVER/TOOL, or SERVER/KIND:NAME
        #[arg(value_name = "SERVER/TOOL")]
        subject: String,
    },
}

pub(crate) async fn run(app: &App, args: &LockArgs) -> Result<CommandExit, CommandFailure> {
    match &args.order {
        Some(LockOrder::Accept { subject }) => accept(app, subject).await,
        None => lock(app, args.target.as_deref()).await,
    }
}

/// Pins everything of one server, or of all.
async fn lock(app: &App, target: Option<&str>) -> Result<CommandExit, CommandFailure> {
    let loaded = app.configuration()?;
    let (servers, exit) = looked_at(app, &loaded, target).await?;
    let store = pin_store(app)?;
    let reviews: Vec<_> =
        store.reviews().into_iter().filter(|review| servers.contains(&review.drift.key.server)).collect();
    let mut locked = Vec::new();
    for server in &servers {
        warn_of_findings(app, &store, server);
        let things = store.lock_server(server, "tsugi lock").map_err(failed)?;
        locked.push((server, things));
    }
    let mut pruned = Vec::new();
    if target.is_none() {
        let configured: Vec<String> = loaded.settings.servers.iter().map(|server| server.name.clone()).collect();
        pruned = store.prune(&configured).map_err(failed)?;
    }
    let path = store.path();
    match app.output.form() {
        OutputFormat::Json => {
            let of = |(server, things): &(&String, usize)| json!({"server": server, "things": things});
            let locked: Vec<_> = locked.iter().map(of).collect();
            app.output.json(&json!({"file": path, "locked": locked, "forgotten": pruned}))?;
        }
        OutputFormat::Text => {
            print_reviews(app, &reviews)?;
            for (server, things) in &locked {
                app.output
                    .message(|paint| format!("{}: {things} things pinned in {}", paint.strong(server), path.display()));
            }
            for server in &pruned {
                app.output.message(|_| format!("{server}: forgotten, since the configuration does not have it"));
            }
        }
    }
    Ok(exit)
}

async fn accept(app: &App, subject: &str) -> Result<CommandExit, CommandFailure> {
    let key = parse_subject(subject)?;
    let loaded = app.configuration()?;
    let (_, exit) = looked_at(app, &loaded, Some(&key.server)).await?;
    let store = pin_store(app)?;
    let Some(review) = store.reviews().into_iter().find(|review| review.drift.key == key) else {
        let message = format!("{} does not differ from its pin", printable(subject));
        return match exit {
            CommandExit::Success => Err(CommandFailure::usage(message).with_hint("`tsugi diff` shows what differs")),
            exit => Ok(exit),
        };
    };
    if app.output.form() == OutputFormat::Text {
        print_reviews(app, std::slice::from_ref(&review))?;
    }
    let seen = review.drift.new.as_ref().map(|new| new.digest);
    store.accept(&key, seen, "tsugi lock accept").map_err(|error| CommandFailure::usage(error.to_string()))?;
    match app.output.form() {
        OutputFormat::Json => {
            app.output.json(&json!({"accepted": key.to_string(), "digest": seen.map(|seen| seen.to_string())}))?
        }
        OutputFormat::Text => {
            app.output.message(|paint| paint.good(format!("{} is pinned", printable(&key.to_string()))))
        }
    }
    Ok(CommandExit::Success)
}

/// `SERVER/TOOL` or `SERVER/KIND:NAME`.
fn parse_subject(subject: &str) -> Result<PinKey, CommandFailure> {
    let Some((server, thing)) = subject.split_once('/') else {
        let message = format!("{subject:?} does not name a server and a thing of it");
        return Err(CommandFailure::usage(message).with_hint("write SERVER/TOOL, such as files/read"));
    };
    Ok(match thing.split_once(':').and_then(|(word, name)| Some((PinKind::from_word(word)?, name))) {
        Some((kind, name)) => PinKey::new(server, kind, name),
        None => match thing {
            "instructions" => PinKey::new(server, PinKind::Instructions, ""),
            "info" => PinKey::new(server, PinKind::Info, ""),
            "command" => PinKey::new(server, PinKind::Command, tsugi_pins::command_pin::platform()),
            tool => PinKey::new(server, PinKind::Tool, tool),
        },
    })
}

/// What the lint says about a server that is about to be pinned. It is pinned all the same: a person asked for it.
fn warn_of_findings(app: &App, store: &Arc<PinStore>, server: &str) {
    for (key, finding) in store.findings(server) {
        app.output.message(|paint| {
            let subject = printable(&key.to_string());
            let (what, where_) = (finding.rule.explain(), printable(&finding.place));
            format!("{}: {subject} has {what} at {where_}: {}", paint.warning("warning"), printable(&finding.excerpt))
        });
    }
}

fn failed(error: tsugi_pins::store::PinStoreError) -> CommandFailure {
    CommandFailure::usage(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thing_is_named_by_its_server_and_kind() {
        let named = |subject: &str| parse_subject(subject).unwrap();
        assert_eq!(named("files/read"), PinKey::new("files", PinKind::Tool, "read"));
        assert_eq!(named("files/resource:notes://a/b"), PinKey::new("files", PinKind::Resource, "notes://a/b"));
        assert_eq!(named("files/tool:instructions"), PinKey::new("files", PinKind::Tool, "instructions"));
        assert_eq!(named("files/instructions"), PinKey::new("files", PinKind::Instructions, ""));
        assert!(parse_subject("files").is_err());
    }
}
