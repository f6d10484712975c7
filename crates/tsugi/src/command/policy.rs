//! `tsugi policy`: checks rules, explains a decision, and tries the rules on calls of the audit log.

mod explain;
mod replay;

use std::path::PathBuf;

use clap::Subcommand;
use serde_json::json;
use tsugi_policy::lint::{self, PolicyFinding};
use tsugi_policy::set::{PolicySet, PolicySource};

use crate::app::App;
use crate::cli::NoServerFlags;
use crate::config::layer::{self, LoadedConfig};
use crate::config::problem::ConfigProblems;
use crate::config::resolve::access_policy;
use crate::config::settings::PolicySettings;
use crate::failure::CommandFailure;
use crate::output::OutputFormat;
use crate::report::exit::CommandExit;

const EXAMPLES: &str = "\
Examples:
  tsugi policy check                             the rules of the configuration
  tsugi policy check --strict rules.yaml         one file; fail if a rule looks like a mistake
  tsugi policy explain --as corp:alice --call files/write --args @a.json
  tsugi policy explain --as key:ci --action see --call files/write
  tsugi policy replay --audit audit.jsonl        what would change for the calls of the audit log

Exit codes: check 0 usable, 1 with --strict and findings, 2 unusable; explain 0 permitted, 5 refused;
replay 0 nothing would change, 1 something would.";

/// Check the rules of the policy, explain a decision, or try them on past calls
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct PolicyArgs {
    #[command(flatten)]
    _no_servers: NoServerFlags,
    #[command(subcommand)]
    order: PolicyCommand,
    /// Print data only
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

#[derive(Debug, Subcommand)]
enum PolicyCommand {
    /// Check the rules: what cannot be used, what can never match, what looks like a mistake
    Check(CheckRulesArgs),
    /// Show what the rules say to one question, and which of them decides
    Explain(explain::ExplainArgs),
    /// Ask the rules about the calls of an audit log, and show what would change
    Replay(replay::ReplayArgs),
}

#[derive(Debug, clap::Args)]
struct CheckRulesArgs {
    /// Files with rules; without any, those of the configuration
    files: Vec<PathBuf>,
    /// Fail if a rule looks like a mistake
    #[arg(long)]
    strict: bool,
}

pub(crate) fn run(app: &App, args: &PolicyArgs) -> Result<CommandExit, CommandFailure> {
    match &args.order {
        PolicyCommand::Check(order) => check(app, order),
        PolicyCommand::Explain(order) => explain::run(app, order),
        PolicyCommand::Replay(order) => replay::run(app, order),
    }
}

/// The configuration with its policy.
fn configured(app: &App) -> Result<(LoadedConfig, PolicySettings), CommandFailure> {
    let loaded = layer::load(&app.wish(), &app.context)?;
    match loaded.settings.policy.clone() {
        Some(policy) => Ok((loaded, policy)),
        None => Err(CommandFailure::usage("the configuration has no `policy`")
            .with_hint("add `policy: { files: [policy.yaml] }` to it")),
    }
}

fn check(app: &App, order: &CheckRulesArgs) -> Result<CommandExit, CommandFailure> {
    if order.files.is_empty() {
        let (loaded, policy) = configured(app)?;
        let servers: Vec<String> = loaded.settings.servers.iter().map(|server| server.name.clone()).collect();
        return report(app, &policy.set, &servers, order.strict);
    }
    let mut sources = Vec::new();
    for file in &order.files {
        let text = std::fs::read_to_string(file)
            .map_err(|error| CommandFailure::usage(format!("the file `{}` cannot be read: {error}", file.display())))?;
        sources.push(PolicySource { file: file.clone(), text });
    }
    let set = access_policy::load(sources).map_err(|problems| CommandFailure::Problems(ConfigProblems(problems)))?;
    report(app, &set, &[], order.strict)
}

fn report(app: &App, set: &PolicySet, servers: &[String], is_strict: bool) -> Result<CommandExit, CommandFailure> {
    let findings = lint::findings(set, servers);
    match app.output.form() {
        OutputFormat::Json => {
            let rules: Vec<_> = set
                .rules()
                .iter()
                .map(|rule| {
                    let file = &set.file_of(rule).file;
                    json!({"name": rule.name(), "effect": rule.effect().as_str(), "file": file, "line": rule.line()})
                })
                .collect();
            let of = |finding: &PolicyFinding| json!({"rule": finding.rule, "message": finding.message, "hint": finding.hint});
            let findings: Vec<_> = findings.iter().map(of).collect();
            app.output.json(&json!({"rules": rules, "findings": findings}))?;
        }
        OutputFormat::Text => {
            for finding in &findings {
                let rule = finding.rule.as_ref().map(|rule| format!("{rule}: ")).unwrap_or_default();
                app.output.data(&format!("{rule}{}", finding.message))?;
                if let Some(hint) = &finding.hint {
                    app.output.data(&format!("  hint: {hint}"))?;
                }
            }
            let (rules, files) = (set.rules().len(), set.sources().len());
            app.output.data(&format!("{rules} rules in {files} files can be used; {} findings", findings.len()))?;
        }
    }
    Ok(if is_strict && !findings.is_empty() { CommandExit::Failed } else { CommandExit::Success })
}
