//! `tsugi audit`: tells whether the audit log is whole, and shows what it says.

use std::collections::VecDeque;
use std::io::{self, BufReader};
use std::path::PathBuf;

use clap::Subcommand;
use serde_json::{Value, json};
use tsugi_audit::checkpoint::{AuditPublicKey, Checkpoint};
use tsugi_audit::file_set::AuditFileSet;
use tsugi_audit::filter::{self, LineFilter};
use tsugi_audit::timestamp::AuditTime;
use tsugi_audit::verify::{ChainSummary, ChainVerdict, ChainVerifier, VerifyOptions, verify_files};

use crate::app::App;
use crate::cli::NoServerFlags;
use crate::config::{layer, parse};
use crate::failure::CommandFailure;
use crate::output::OutputFormat;
use crate::output::table::TextTable;
use crate::report::exit::CommandExit;

const EXAMPLES: &str = "\
Examples:
  tsugi audit verify                             the log of the configuration
  tsugi audit verify --key audit.key.pub audit-*.jsonl audit.jsonl
  tsugi audit verify --from checkpoint.json      was anything before it changed, or cut after it?
  tsugi audit show --identity key:ann --since 1h
  tsugi audit show --kind denied --json
  psql -Atc 'select line from tsugi_audit order by seq' | tsugi audit verify -

Exit codes of verify: 0 whole, 1 broken, 2 cut.";

/// Verify and read the audit log
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct AuditArgs {
    #[command(flatten)]
    _no_servers: NoServerFlags,
    #[command(subcommand)]
    order: AuditCommand,
    /// Print data only
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

#[derive(Debug, Subcommand)]
enum AuditCommand {
    /// Tell whether the log is whole (0), broken (1, with the first bad line) or cut (2)
    Verify(VerifyArgs),
    /// Show lines of the log
    Show(ShowArgs),
}

#[derive(Debug, clap::Args)]
struct VerifyArgs {
    /// The files in the order of the chain, or - for standard input; without any, those of the configuration
    files: Vec<PathBuf>,
    /// The public key that must have signed the log: 64 hexadecimal digits, or a file with them
    #[arg(long, value_name = "PUB")]
    key: Option<String>,
    /// A checkpoint that was kept elsewhere: its JSON, or a file with it
    #[arg(long, value_name = "CHECKPOINT")]
    from: Option<String>,
}

#[derive(Debug, clap::Args)]
struct ShowArgs {
    /// The files; without any, those of the configuration
    files: Vec<PathBuf>,
    /// Only lines of this identity, such as key:ann
    #[arg(long)]
    identity: Option<String>,
    /// Only lines of this tenant
    #[arg(long)]
    tenant: Option<String>,
    /// Only lines of this kind, such as call, denied or signin.failed
    #[arg(long)]
    kind: Option<String>,
    /// Only lines about this server
    #[arg(long, value_name = "SERVER")]
    upstream: Option<String>,
    /// Only lines about this tool, prompt or resource
    #[arg(long)]
    name: Option<String>,
    /// Only calls that ended so: ok, tool_error, input_required, failed, cancelled
    #[arg(long)]
    outcome: Option<String>,
    /// Only lines from then on: a time such as 2026-11-18T04:00, or how long ago, such as 1h
    #[arg(long, value_name = "TIME", value_parser = moment)]
    since: Option<AuditTime>,
    /// Only lines before then
    #[arg(long, value_name = "TIME", value_parser = moment)]
    until: Option<AuditTime>,
    /// Only the last lines of those
    #[arg(long, value_name = "NUMBER")]
    last: Option<usize>,
}

/// A point in time, or how long ago it was.
fn moment(text: &str) -> Result<AuditTime, String> {
    // A duration first: `1h` is not a date, and no date is a duration.
    if let Ok(ago) = parse::duration(text) {
        let ago = u64::try_from(ago.as_micros()).unwrap_or(u64::MAX);
        return Ok(AuditTime::from_micros(AuditTime::now().micros().saturating_sub(ago)));
    }
    AuditTime::parse(text).ok_or_else(|| "expected a time such as 2026-11-18T04:00 (UTC), or 1h".to_owned())
}

pub(crate) fn run(app: &App, args: &AuditArgs) -> Result<CommandExit, CommandFailure> {
    match &args.order {
        AuditCommand::Verify(order) => verify(app, order),
        AuditCommand::Show(order) => show(app, order),
    }
}

fn verify(app: &App, order: &VerifyArgs) -> Result<CommandExit, CommandFailure> {
    let mut options = VerifyOptions {
        key: order.key.as_deref().map(read_key).transpose()?,
        from: order.from.as_deref().map(read_checkpoint).transpose()?,
        is_open: false,
    };
    if let (Some(key), Some(from)) = (options.key, &options.from)
        && from.key() != Some(key)
    {
        return Err(CommandFailure::usage("the checkpoint of --from is signed by another key than --key"));
    }
    let verdict = if order.files == [PathBuf::from("-")] {
        let mut verifier = ChainVerifier::new(options);
        match verifier.read("-", &mut BufReader::new(io::stdin().lock())).map_err(unreadable)? {
            Some(broken) => ChainVerdict::Broken(broken),
            None => verifier.finish(),
        }
    } else {
        let files = files(app, &order.files)?;
        // Only a gateway that runs may leave an unsigned end.
        options.is_open = files.last().is_some_and(|last| AuditFileSet::new(last).has_writer());
        verify_files(&files, &options).map_err(unreadable)?
    };
    match app.output.form() {
        OutputFormat::Json => app.output.json(&verdict_json(&verdict))?,
        OutputFormat::Text => app.output.data(&verdict_text(&verdict, order.key.is_some()))?,
    }
    Ok(match verdict {
        ChainVerdict::Whole(_) => CommandExit::Success,
        ChainVerdict::Broken(_) => CommandExit::Failed,
        // 2, which otherwise is a wrong command line.
        ChainVerdict::Cut(..) => CommandExit::Usage,
    })
}

/// The files that were named, or those of the configuration.
fn files(app: &App, named: &[PathBuf]) -> Result<Vec<PathBuf>, CommandFailure> {
    if !named.is_empty() {
        return Ok(named.to_vec());
    }
    let loaded = layer::load(&app.wish(), &app.context)?;
    let Some(audit) = loaded.settings.audit else {
        let failure = CommandFailure::usage("the configuration has no `audit`");
        return Err(failure.with_hint("name the files: tsugi audit verify FILE…"));
    };
    AuditFileSet::new(audit.file).files().map_err(unreadable)
}

fn unreadable(error: io::Error) -> CommandFailure {
    CommandFailure::usage(format!("the audit log cannot be read: {error}"))
}

/// A value that stands on the command line or in a file.
fn inline_or_file(text: &str, is_inline: bool) -> Result<String, CommandFailure> {
    if is_inline {
        return Ok(text.to_owned());
    }
    std::fs::read_to_string(text).map_err(|error| CommandFailure::usage(format!("{text}: {error}")))
}

fn read_key(text: &str) -> Result<AuditPublicKey, CommandFailure> {
    let key = inline_or_file(text, AuditPublicKey::parse(text).is_some())?;
    AuditPublicKey::parse(&key)
        .ok_or_else(|| CommandFailure::usage("--key is not a public key of 64 hexadecimal digits"))
}

/// A checkpoint, by itself or within its line.
fn read_checkpoint(text: &str) -> Result<Checkpoint, CommandFailure> {
    let text = inline_or_file(text, text.trim_start().starts_with('{'))?;
    let value: Option<Value> = serde_json::from_str(text.trim()).ok();
    let value = value.map(|mut value| match value.get_mut("checkpoint") {
        Some(inner) => inner.take(),
        None => value,
    });
    let checkpoint: Option<Checkpoint> = value.and_then(|value| serde_json::from_value(value).ok());
    // A forged one would make a good log look broken.
    let good = checkpoint.filter(|checkpoint| checkpoint.is_signed() && checkpoint.head().is_some());
    good.ok_or_else(|| CommandFailure::usage("--from is not a checkpoint with a valid signature"))
}

fn verdict_text(verdict: &ChainVerdict, is_key_known: bool) -> String {
    match verdict {
        ChainVerdict::Whole(summary) => {
            let mut text = format!("whole: {}", summary_text(summary));
            if summary.unsigned > 0 {
                text.push_str(&format!("\nthe last {} lines are not signed yet", summary.unsigned));
            }
            if let Some(checkpoint) = summary.last_checkpoint.as_ref().filter(|_| !is_key_known) {
                text.push_str(&format!("\nsigned by {}; pass the key that you know with --key", checkpoint.key));
            }
            text
        }
        ChainVerdict::Broken(at) => {
            format!("broken at seq {} ({}, line {}): {}", at.seq, filter::visible(&at.file), at.line, at.reason)
        }
        ChainVerdict::Cut(summary, reason) => format!("cut after seq {}: {reason}", summary.head.seq),
    }
}

fn summary_text(summary: &ChainSummary) -> String {
    let gaps = match summary.gaps {
        0 => String::new(),
        gaps => format!(", {gaps} gaps that the log accounts for"),
    };
    let (first, last) = (summary.first_seq, summary.head.seq);
    format!("{} lines, seq {first} to {last}, {} checkpoints{gaps}", summary.lines, summary.checkpoints)
}

fn verdict_json(verdict: &ChainVerdict) -> Value {
    let summary = |summary: &ChainSummary| {
        json!({
            "lines": summary.lines,
            "firstSeq": summary.first_seq,
            "lastSeq": summary.head.seq,
            "lastHash": summary.head.hash.to_string(),
            "checkpoints": summary.checkpoints,
            "unsigned": summary.unsigned,
            "gaps": summary.gaps,
            "checkpoint": summary.last_checkpoint,
        })
    };
    match verdict {
        ChainVerdict::Whole(whole) => json!({"verdict": "whole", "chain": summary(whole)}),
        ChainVerdict::Broken(at) => {
            let reason = at.reason.to_string();
            json!({"verdict": "broken", "seq": at.seq, "file": at.file, "line": at.line, "reason": reason})
        }
        ChainVerdict::Cut(left, reason) => {
            json!({"verdict": "cut", "chain": summary(left), "reason": reason.to_string()})
        }
    }
}

fn show(app: &App, order: &ShowArgs) -> Result<CommandExit, CommandFailure> {
    let files = files(app, &order.files)?;
    let filter = LineFilter {
        identity: order.identity.clone(),
        tenant: order.tenant.clone(),
        kind: order.kind.clone(),
        server: order.upstream.clone(),
        name: order.name.clone(),
        outcome: order.outcome.clone(),
        since: order.since,
        until: order.until,
    };
    let most = order.last.unwrap_or(usize::MAX);
    let is_json = app.output.form() == OutputFormat::Json;
    let mut rows = VecDeque::new();
    let mut keep = |row: String| {
        rows.push_back(row);
        if rows.len() > most {
            rows.pop_front();
        }
    };
    filter::for_each_line(&files, &filter, |text, _| {
        match order.last {
            // Printed at once, since a log may be larger than the memory.
            None if is_json => app.output.data(&String::from_utf8_lossy(text))?,
            _ => keep(String::from_utf8_lossy(text).into_owned()),
        }
        Ok(true)
    })
    .map_err(unreadable)?;
    if is_json {
        rows.iter().try_for_each(|row| app.output.data(row))?;
        return Ok(CommandExit::Success);
    }
    let mut table = TextTable::new(["seq", "time", "kind", "identity", "what", "outcome", "ms"]);
    for row in rows {
        table.row(cells(&row));
    }
    app.output.table(&table)?;
    Ok(CommandExit::Success)
}

fn cells(line: &str) -> [String; 7] {
    let line: Value = serde_json::from_str(line).unwrap_or_default();
    // Names come from callers, who must not be able to move the cursor.
    let text = |name: &str| match &line[name] {
        Value::String(text) => filter::visible(text),
        Value::Null => String::new(),
        other => other.to_string(),
    };
    let joined = |parts: &[String], between: &str| {
        parts.iter().filter(|part| !part.is_empty()).cloned().collect::<Vec<_>>().join(between)
    };
    let what = joined(&[text("server"), text("name")], "/");
    let what = joined(&[text("action"), what, text("address")], " ");
    // Which rule decided stands beside the code.
    let by = line["decision"]["by"].as_str().map(filter::visible).unwrap_or_default();
    let outcome = joined(&[text("outcome"), text("code"), by], " ");
    let time = text("time").trim_end_matches('Z').get(..19).unwrap_or_default().replace('T', " ");
    [text("seq"), time, text("kind"), text("identity"), what, outcome, text("ms")]
}
