//! `tsugi policy replay`: the rules of today and the calls of yesterday.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;

use serde_json::{Value, json};
use tsugi_gateway::guard::policy::ToolFacts;
use tsugi_policy::arguments::CallArguments;
use tsugi_policy::question::{
    ERAS, FACES, NameKind, PolicyAction, PolicyQuestion, PrincipalFacts, QuestionContext, ResourceFacts,
};
use tsugi_policy::set::PolicySet;

use super::{configured, explain::key_of};
use crate::app::{App, gateway};
use crate::config::settings::CheckedSettings;
use crate::failure::CommandFailure;
use crate::output::{OutputFormat, printable};
use crate::report::exit::CommandExit;

/// Lines shown of what would change.
const SHOWN: usize = 20;

#[derive(Debug, clap::Args)]
pub(super) struct ReplayArgs {
    /// Files of the audit log
    #[arg(long = "audit", value_name = "FILE", required = true, num_args = 1..)]
    files: Vec<PathBuf>,
}

/// What the rules of today say to a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReplayedAnswer {
    Permitted,
    Refused,
    /// The log does not have what the rules look at.
    Unknown,
}

/// How many lines there were of each kind, and those that would end differently.
#[derive(Default)]
struct ReplayReport {
    calls: u64,
    permitted: u64,
    unknown: u64,
    /// Refusals by the rule that decided.
    refused: BTreeMap<String, u64>,
    changed: Vec<Value>,
    changes: u64,
}

pub(super) fn run(app: &App, args: &ReplayArgs) -> Result<CommandExit, CommandFailure> {
    let (loaded, policy) = configured(app)?;
    let mut report = ReplayReport::default();
    for file in &args.files {
        let unreadable =
            |error: std::io::Error| CommandFailure::usage(format!("`{}` cannot be read: {error}", file.display()));
        for line in BufReader::new(File::open(file).map_err(unreadable)?).lines() {
            // A line that was cut short says nothing about a call.
            if let Ok(line) = serde_json::from_str::<Value>(&line.map_err(unreadable)?) {
                report.add(&line, &policy.set, &loaded.settings);
            }
        }
    }
    report.print(app)?;
    Ok(if report.changes == 0 { CommandExit::Success } else { CommandExit::Failed })
}

impl ReplayReport {
    fn add(&mut self, line: &Value, set: &PolicySet, settings: &CheckedSettings) {
        let was_permitted = match (line["kind"].as_str(), line["decision"]["by"].as_str()) {
            (Some("call.begun"), _) => true,
            // Other rules than those of the policy still hold today.
            (Some("denied"), Some("policy" | "policy.error")) => false,
            _ => return,
        };
        let Some((action, kind)) = line["action"].as_str().and_then(action_of) else { return };
        let (Some(server), Some(name)) = (line["server"].as_str(), line["name"].as_str()) else { return };
        self.calls += 1;
        let (answer, rule) = ask(line, set, settings, (action, kind), (server, name));
        match answer {
            ReplayedAnswer::Permitted => self.permitted += 1,
            ReplayedAnswer::Unknown => self.unknown += 1,
            ReplayedAnswer::Refused => *self.refused.entry(rule.clone()).or_default() += 1,
        }
        let is_changed = match answer {
            ReplayedAnswer::Permitted => !was_permitted,
            ReplayedAnswer::Refused => was_permitted,
            ReplayedAnswer::Unknown => false,
        };
        if is_changed {
            self.changes += 1;
            if self.changed.len() < SHOWN {
                let now = if answer == ReplayedAnswer::Permitted { "permitted" } else { "refused" };
                let who = &line["identity"];
                self.changed.push(json!({
                    "seq": line["seq"], "identity": who, "action": action.as_str(),
                    "server": server, "name": name, "now": now, "rule": rule,
                }));
            }
        }
    }

    fn print(&self, app: &App) -> Result<(), CommandFailure> {
        let refused: u64 = self.refused.values().sum();
        if app.output.form() == OutputFormat::Json {
            let summary = json!({
                "calls": self.calls, "permitted": self.permitted, "refused": refused, "unknown": self.unknown,
                "refusedBy": self.refused, "changes": self.changes, "changed": self.changed,
            });
            return Ok(app.output.json(&summary)?);
        }
        for change in &self.changed {
            let text = |key: &str| printable(change[key].as_str().unwrap_or_default());
            let seq = &change["seq"];
            let (who, action, what) =
                (text("identity"), text("action"), format!("{}/{}", text("server"), text("name")));
            app.output.data(&format!(
                "seq {seq}: {who} {action} {what} would be {} by {}",
                text("now"),
                text("rule")
            ))?;
        }
        let more = self.changes - self.changed.len() as u64;
        if more > 0 {
            app.output.data(&format!("and {more} more"))?;
        }
        let (calls, permitted, unknown) = (self.calls, self.permitted, self.unknown);
        app.output.data(&format!(
            "{calls} calls: {permitted} permitted, {refused} refused, {unknown} cannot be decided from the log; {} would change",
            self.changes
        ))?;
        Ok(())
    }
}

fn action_of(method: &str) -> Option<(PolicyAction, NameKind)> {
    Some(match method {
        "tools/call" => (PolicyAction::CallTool, NameKind::Tool),
        "prompts/get" => (PolicyAction::GetPrompt, NameKind::Prompt),
        "resources/read" => (PolicyAction::ReadResource, NameKind::Address),
        "resources/subscribe" => (PolicyAction::Subscribe, NameKind::Address),
        // The log does not say what was completed, and methods have no name.
        _ => return None,
    })
}

/// What the rules say to a line, and which of them decided.
fn ask(
    line: &Value,
    set: &PolicySet,
    settings: &CheckedSettings,
    (action, kind): (PolicyAction, NameKind),
    (server, name): (&str, &str),
) -> (ReplayedAnswer, String) {
    let text = |key: &str| line[key].as_str().unwrap_or_default().to_owned();
    let word = |key: &str, known: &[&'static str]| known.iter().copied().find(|word| line[key] == *word).unwrap_or("");
    let identity = text("identity");
    let key = key_of(&identity, settings);
    let issuer = identity.strip_prefix("subject:").and_then(|rest| rest.split(':').next()).unwrap_or_default();
    let principal = PrincipalFacts {
        role: key.map_or("user", |(role, _)| role),
        tenant: text("tenant"),
        client: text("client"),
        issuer: issuer.to_owned(),
        identity,
        ..PrincipalFacts::default()
    };
    let known = settings.servers.iter().find(|known| known.name == server).map(gateway::facts).unwrap_or_default();
    let of_tool = known.tools.get(name).cloned();
    let ToolFacts { tags, hints } = of_tool.unwrap_or(ToolFacts { tags: known.tags, ..ToolFacts::default() });
    let question = PolicyQuestion {
        principal: &principal,
        action,
        resource: ResourceFacts { server, name, kind, tags: &tags, hints, is_pinned: false },
        context: QuestionContext {
            arguments: &CallArguments::Absent,
            face: word("face", FACES),
            era: word("era", ERAS),
            address: None,
            now: 0,
        },
    };
    let planned = set.plan(&question);
    let reads = set.planned_reads(&planned);
    // A key's role is in the configuration; what a token said is gone.
    if reads.is_volatile() || reads.credential && key.is_none() {
        return (ReplayedAnswer::Unknown, String::new());
    }
    let decision = set.decide_planned(&planned, &question);
    let answer = match decision.verdict.is_permitted() {
        true => ReplayedAnswer::Permitted,
        false => ReplayedAnswer::Refused,
    };
    (answer, set.decided_by(decision.verdict).to_owned())
}
