//! `tsugi policy explain`: what every rule says to one question.

use std::net::IpAddr;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::json;
use tsugi_gateway::guard::policy::ToolFacts;
use tsugi_policy::arguments::CallArguments;
use tsugi_policy::question::{
    NameKind, PolicyAction, PolicyQuestion, PrincipalFacts, QuestionContext, ROLES, ResourceFacts,
};
use tsugi_policy::rule::full_identity;
use tsugi_policy::set::RuleAnswer;

use super::configured;
use crate::app::{App, gateway};
use crate::config::parse;
use crate::config::settings::{ADMIN, CheckedSettings};
use crate::failure::CommandFailure;
use crate::output::{OutputFormat, printable};
use crate::report::exit::CommandExit;
use tsugi_gateway::guard::api_key::KeyRole;

#[derive(Debug, clap::Args)]
pub(super) struct ExplainArgs {
    /// Who asks, as the log names them: key:ann, corp:alice, certificate:build, anonymous
    #[arg(long = "as", value_name = "IDENTITY")]
    identity: String,
    /// The thing: SERVER/TOOL, or another name or address of a server
    #[arg(long = "call", value_name = "SERVER/TOOL")]
    subject: String,
    /// What is done with it
    #[arg(long, default_value = "callTool", value_parser = action)]
    action: PolicyAction,
    /// The arguments: JSON, or @FILE
    #[arg(long, value_name = "JSON")]
    args: Option<String>,
    /// The caller's role: admin, user or readOnly; a key has that of the configuration
    #[arg(long, value_parser = role)]
    role: Option<&'static str>,
    /// A group that the caller is in; can be repeated
    #[arg(long = "group", value_name = "GROUP")]
    groups: Vec<String>,
    /// The caller's tenant; a key has that of the configuration
    #[arg(long)]
    tenant: Option<String>,
    /// A scope that the caller's token has; can be repeated
    #[arg(long = "scope", value_name = "SCOPE")]
    scopes: Vec<String>,
    /// The caller's OAuth client
    #[arg(long)]
    client: Option<String>,
    /// The address that the call comes from
    #[arg(long, value_name = "IP")]
    address: Option<IpAddr>,
    /// When it comes; default: now
    #[arg(long, value_name = "TIME", value_parser = moment)]
    at: Option<SystemTime>,
    /// Ask as if the lock file had it
    #[arg(long)]
    pinned: bool,
}

fn action(text: &str) -> Result<PolicyAction, String> {
    let known = PolicyAction::ALL.map(PolicyAction::as_str).join(", ");
    PolicyAction::parse(text).ok_or_else(|| format!("expected one of {known}"))
}

fn role(text: &str) -> Result<&'static str, String> {
    ROLES.iter().copied().find(|role| *role == text).ok_or_else(|| format!("expected one of {}", ROLES.join(", ")))
}

fn moment(text: &str) -> Result<SystemTime, String> {
    parse::moment(text).map_err(|expected| format!("expected {}", expected.what))
}

pub(super) fn run(app: &App, args: &ExplainArgs) -> Result<CommandExit, CommandFailure> {
    let (loaded, policy) = configured(app)?;
    let (server, name) = args.subject.split_once('/').unwrap_or((&args.subject, ""));
    let principal = principal(args, &loaded.settings);
    let known = loaded.settings.servers.iter().find(|known| known.name == server).map(gateway::facts);
    let known = known.unwrap_or_default();
    let of_tool = known.tools.get(name).cloned();
    let ToolFacts { tags, hints } = of_tool.unwrap_or(ToolFacts { tags: known.tags, ..ToolFacts::default() });
    let arguments = arguments(args)?;
    let now = args.at.unwrap_or_else(SystemTime::now).duration_since(UNIX_EPOCH).unwrap_or_default();
    let question = PolicyQuestion {
        principal: &principal,
        action: args.action,
        resource: ResourceFacts {
            server,
            name,
            kind: kind(args.action, name),
            tags: &tags,
            hints,
            is_pinned: args.pinned,
        },
        context: QuestionContext {
            arguments: &arguments,
            face: "mcp",
            era: "modern",
            address: args.address,
            now: i64::try_from(now.as_secs()).unwrap_or(i64::MAX),
        },
    };
    let decision = policy.set.decide(&question);
    let rules = policy.set.explain(&question);
    let decided_by = policy.set.decided_by(decision.verdict);
    let is_permitted = decision.verdict.is_permitted();
    match app.output.form() {
        OutputFormat::Json => {
            let rules: Vec<_> = rules
                .iter()
                .map(|(rule, answer)| {
                    let (word, why) = told(answer);
                    json!({"rule": rule.name(), "effect": rule.effect().as_str(), "answer": word, "why": why})
                })
                .collect();
            app.output.json(&json!({
                "permitted": is_permitted,
                "verdict": decision.verdict.as_str(),
                "decidedBy": decided_by,
                "error": decision.error.as_ref().map(ToString::to_string),
                "identity": principal.identity,
                "rules": rules,
            }))?;
        }
        OutputFormat::Text => {
            let error = decision.error.as_ref().map(|error| format!(": {error}")).unwrap_or_default();
            let word = if is_permitted { "permitted" } else { "refused" };
            let why = match decision.verdict.as_str() {
                "permitted" => String::new(),
                why => format!(": {why}{error}"),
            };
            app.output.data(&format!("{word} by {decided_by}{why}"))?;
            for (rule, answer) in &rules {
                let (word, why) = told(answer);
                let why = why.map(|why| format!(" ({})", printable(&why))).unwrap_or_default();
                app.output.data(&format!("  {} {}: {word}{why}", rule.effect().as_str(), rule.name()))?;
            }
        }
    }
    Ok(if is_permitted { CommandExit::Success } else { CommandExit::Refused })
}

/// What a rule said, in a word, and why.
fn told(answer: &RuleAnswer) -> (&'static str, Option<String>) {
    match answer {
        RuleAnswer::Elsewhere(what) => ("does not apply", Some(format!("another {what}"))),
        RuleAnswer::NotAsked => ("not asked", Some("it reads arguments, and a list has none".to_owned())),
        RuleAnswer::Holds => ("holds", None),
        RuleAnswer::HoldsNot => ("does not hold", None),
        RuleAnswer::Failed(error) => ("cannot be evaluated", Some(error.to_string())),
    }
}

fn kind(action: PolicyAction, name: &str) -> NameKind {
    match action {
        PolicyAction::CallTool => NameKind::Tool,
        PolicyAction::GetPrompt => NameKind::Prompt,
        PolicyAction::ReadResource | PolicyAction::Subscribe => NameKind::Address,
        PolicyAction::Task | PolicyAction::Method => NameKind::Method,
        PolicyAction::Control | PolicyAction::ConnectUpstream => NameKind::Order,
        PolicyAction::See | PolicyAction::Complete if name.contains("://") => NameKind::Address,
        PolicyAction::See => NameKind::Tool,
        PolicyAction::Complete => NameKind::Prompt,
    }
}

fn arguments(args: &ExplainArgs) -> Result<CallArguments, CommandFailure> {
    if args.action == PolicyAction::See {
        return Ok(CallArguments::Absent);
    }
    let Some(given) = args.args.as_deref() else { return Ok(CallArguments::read(None)) };
    let text = match given.strip_prefix('@') {
        None => given.to_owned(),
        Some(file) => std::fs::read_to_string(file)
            .map_err(|error| CommandFailure::usage(format!("the file `{file}` cannot be read: {error}")))?,
    };
    match serde_json::from_str::<serde_json::Value>(&text) {
        Ok(_) => Ok(CallArguments::read(Some(&text))),
        Err(error) => Err(CommandFailure::usage(format!("--args is not JSON: {error}"))),
    }
}

/// The caller. What the configuration says about a key counts unless the command line says otherwise.
pub(super) fn key_of<'a>(identity: &str, settings: &'a CheckedSettings) -> Option<(&'static str, Option<&'a str>)> {
    let name = identity.strip_prefix("key:")?;
    if name == ADMIN && settings.gateway.auth.admin_key.is_some() {
        return Some((role_word(KeyRole::Admin), None));
    }
    let key = settings.gateway.auth.keys.iter().find(|key| key.name == name)?;
    Some((role_word(key.role), key.tenant.as_deref()))
}

fn role_word(role: KeyRole) -> &'static str {
    match role {
        KeyRole::Admin => "admin",
        KeyRole::User => "user",
        KeyRole::Reader => "readOnly",
    }
}

fn principal(args: &ExplainArgs, settings: &CheckedSettings) -> PrincipalFacts {
    let identity = full_identity(&args.identity);
    let (role, tenant) = key_of(&identity, settings).unwrap_or(("user", None));
    // At a gateway that asks for no credential, every caller is its operator.
    let role = if matches!(&*identity, "anonymous" | "local") { "admin" } else { role };
    let issuer = identity.strip_prefix("subject:").and_then(|rest| rest.split(':').next()).unwrap_or_default();
    PrincipalFacts {
        role: args.role.unwrap_or(role),
        groups: args.groups.clone(),
        tenant: args.tenant.clone().or_else(|| tenant.map(str::to_owned)).unwrap_or_default(),
        scopes: args.scopes.clone(),
        client: args.client.clone().unwrap_or_default(),
        issuer: issuer.to_owned(),
        auth_time: 0,
        identity,
    }
}
