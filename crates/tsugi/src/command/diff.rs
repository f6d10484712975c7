//! `tsugi diff`: what servers offer now against what is pinned, word by word.

use std::sync::Arc;

use serde_json::{Value, json};
use tsugi_pins::PinStore;
use tsugi_pins::member_diff::{MemberDiff, member_diff};
use tsugi_pins::store::PinReview;
use tsugi_pins::visible::{DiffPiece, DiffSide};

use crate::app::{App, StartOptions, select};
use crate::config::layer::LoadedConfig;
use crate::config::settings::{ServerSettings, ServerTarget};
use crate::failure::CommandFailure;
use crate::locate::reach;
use crate::output::style::TextPaint;
use crate::output::{OutputFormat, printable};
use crate::report;
use crate::report::exit::CommandExit;

const EXAMPLES: &str = "\
Examples:
  tsugi diff                 what differs from tsugi.lock, and exit code 1 if something does
  tsugi diff files --json    for one server, as data";

/// Show what differs from the pins, word by word
///
/// Hidden characters are written as \u{27e8}U+200B\u{27e9}. Exit code 0 means that nothing differs, 1 that something does.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct DiffArgs {
    /// Only this server
    #[arg(value_name = "SERVER")]
    target: Option<String>,
    /// Print data only
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) async fn run(app: &App, args: &DiffArgs) -> Result<CommandExit, CommandFailure> {
    let loaded = app.configuration()?;
    let (servers, exit) = looked_at(app, &loaded, args.target.as_deref()).await?;
    let store = pin_store(app)?;
    let reviews: Vec<PinReview> =
        store.reviews().into_iter().filter(|review| servers.contains(&review.drift.key.server)).collect();
    match app.output.form() {
        OutputFormat::Json => {
            let drifts: Vec<Value> = reviews.iter().map(described).collect();
            app.output.json(&json!({"file": store.path(), "differences": drifts}))?;
        }
        OutputFormat::Text => {
            print_reviews(app, &reviews)?;
            if reviews.is_empty() && exit == CommandExit::Success {
                app.output.message(|paint| paint.good("nothing differs from the pins"));
            }
        }
    }
    // A server that cannot be looked at is not clean, and its own exit code says why.
    Ok(if reviews.is_empty() || exit != CommandExit::Success { exit } else { CommandExit::Failed })
}

/// Connects the servers that are pinned, all or one, and returns those that answered.
pub(super) async fn looked_at(
    app: &App,
    loaded: &LoadedConfig,
    target: Option<&str>,
) -> Result<(Vec<String>, CommandExit), CommandFailure> {
    let named: Vec<String> = target.map(str::to_owned).into_iter().collect();
    let names = if named.is_empty() { app.chosen(loaded) } else { &named };
    let wanted: Vec<&ServerSettings> = select(loaded, names)?.into_iter().filter(|server| is_pinned(server)).collect();
    if let Some(name) = target.filter(|_| wanted.is_empty()) {
        let problem = CommandFailure::usage(format!("{name} is not pinned: its `pin` is off, or it is built in"));
        return Err(problem.with_hint("set `pin: warn` or `pin: enforce` for it"));
    }
    let started = app.start(&loaded.settings, &wanted, &StartOptions::default());
    let (mut ready, mut faults) = (Vec::new(), started.failed);
    for one in reach(app, started.servers, |_, _| false).await {
        match one.catalog {
            Ok(catalog) => {
                faults.extend(catalog.faults().map(|fault| fault.clone().on_server(one.server.name())));
                ready.push(one.server.name().to_owned());
            }
            Err(fault) => faults.push(fault),
        }
    }
    report::warn_all(&app.output, &faults);
    Ok((ready, faults.first().map_or(CommandExit::Success, CommandExit::of_fault)))
}

fn is_pinned(server: &ServerSettings) -> bool {
    server.pin.is_on() && !matches!(server.target, ServerTarget::Builtin(_))
}

/// The pins of the configuration.
pub(super) fn pin_store(app: &App) -> Result<Arc<PinStore>, CommandFailure> {
    let none = || {
        let problem =
            CommandFailure::usage("there is nothing to pin: this configuration is not a file, or `pin` is off");
        problem.with_hint("pins stand beside a configuration file: name one with --config")
    };
    app.pins.get().cloned().flatten().ok_or_else(none)
}

/// Prints what differs.
pub(super) fn print_reviews(app: &App, reviews: &[PinReview]) -> Result<(), CommandFailure> {
    for review in reviews {
        app.output.painted(|paint| review_text(review, paint))?;
    }
    Ok(())
}

fn review_text(review: &PinReview, paint: TextPaint) -> String {
    let drift = &review.drift;
    let mut text = format!("{} {}\n", paint.strong(printable(&drift.key.to_string())), drift.change.as_str());
    if let Some(owner) = &review.claimed_from {
        text.push_str(&format!("  {}: the address is pinned for the server {owner}\n", paint.warning("warning")));
    }
    for finding in &review.findings {
        let (what, place) = (finding.rule.explain(), printable(&finding.place));
        text.push_str(&format!("  {}: {what} at {place}: {}\n", paint.warning("warning"), printable(&finding.excerpt)));
    }
    for member in member_diff(drift.old.as_ref(), drift.new.as_ref()) {
        text.push_str(&member_text(&member, paint));
    }
    text
}

/// Removed words in `[-…-]` and added ones in `{+…+}`, as git writes them, so that colour only decorates.
fn member_text(member: &MemberDiff, paint: TextPaint) -> String {
    let piece = |piece: &DiffPiece| match piece.side {
        DiffSide::Same => piece.text.clone(),
        DiffSide::Old => paint.error(format!("[-{}-]", piece.text)),
        DiffSide::New => paint.good(format!("{{+{}+}}", piece.text)),
    };
    let body: String = member.pieces.iter().map(piece).collect();
    let indented = body.replace('\n', "\n    ");
    match member.member.as_str() {
        "" => format!("    {indented}\n"),
        name => format!("  {name}:\n    {indented}\n"),
    }
}

fn described(review: &PinReview) -> Value {
    let drift = &review.drift;
    let digest = |side: &Option<tsugi_pins::PinnedDefinition>| side.as_ref().map(|side| side.digest.to_string());
    json!({
        "server": drift.key.server,
        "kind": drift.key.kind,
        "name": drift.key.name,
        "change": drift.change,
        "old": digest(&drift.old),
        "new": digest(&drift.new),
        "findings": review.findings,
        "claimedFrom": review.claimed_from,
        "members": member_diff(drift.old.as_ref(), drift.new.as_ref()),
    })
}
