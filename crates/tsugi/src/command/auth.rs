//! `tsugi auth`: explains why a token or a key opens the gateway, or why it does not.

use std::io::Read;
use std::path::PathBuf;
use std::time::SystemTime;

use clap::Subcommand;
use http::HeaderMap;
use http::header::AUTHORIZATION;
use serde_json::{Map, Value, json};
use tsugi_auth::secret::SecretText;
use tsugi_auth::token::UnverifiedToken;
use tsugi_gateway::guard::api_key::{ApiKey, EmptyKeyPolicy, KeyRole, KeyTable};
use tsugi_gateway::guard::authority::Authority;
use tsugi_gateway::guard::credential::CredentialVerifier;
use tsugi_gateway::guard::oauth::resource::ResourceDirectory;
use tsugi_gateway::guard::oauth::verifier::{OAuthVerifier, TokenDenial};
use tsugi_protocol::answer::identity::TenantName;

use crate::app::{App, gateway, oauth};
use crate::cli::NoServerFlags;
use crate::config::layer;
use crate::config::settings::CheckedSettings;
use crate::failure::CommandFailure;
use crate::output::OutputFormat;
use crate::report::exit::CommandExit;

/// The longest credential that is read.
const LONGEST: u64 = 64 * 1024;
/// How much of a claim is shown.
const SHOWN: usize = 200;

const EXAMPLES: &str = "\
Examples:
  tsugi auth check < token.txt                   would this token open /mcp, and if not, why?
  tsugi auth check --from-env TOKEN --at /servers/files/mcp
  tsugi auth check --from-file token.txt --call files/write
  wl-paste | tsugi auth check --json

The token or key is never an argument, because other users can read those, and it is never printed.
Exit codes: 0 accepted, 5 refused, 3 the issuer could not be asked.";

/// Explain why a token or key is accepted or refused
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct AuthArgs {
    #[command(flatten)]
    _no_servers: NoServerFlags,
    #[command(subcommand)]
    order: AuthCommand,
    /// Print data only
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

#[derive(Debug, Subcommand)]
enum AuthCommand {
    /// Explain one token or key, read from standard input
    Check(AuthCheckArgs),
}

#[derive(Debug, clap::Args)]
struct AuthCheckArgs {
    /// Read it from this file
    #[arg(long, value_name = "FILE", conflicts_with = "from_env")]
    from_file: Option<PathBuf>,
    /// Read it from this environment variable
    #[arg(long, value_name = "NAME")]
    from_env: Option<String>,
    /// The address that is asked
    #[arg(long, value_name = "PATH", default_value = "/mcp")]
    at: String,
    /// Also explain whether it may call this tool
    #[arg(long, value_name = "SERVER/TOOL")]
    call: Option<String>,
}

pub(crate) async fn run(app: &App, args: &AuthArgs) -> Result<CommandExit, CommandFailure> {
    let AuthCommand::Check(order) = &args.order;
    let credential = read_credential(app, order)?;
    let loaded = layer::load(&app.wish(), &app.context)?;
    let verdict = check(app, &loaded.settings, &credential, order).await?;
    match app.output.form() {
        OutputFormat::Json => app.output.json(&verdict.to_json())?,
        OutputFormat::Text => app.output.data(&verdict.to_text())?,
    }
    Ok(verdict.exit)
}

/// The token or key, without what people copy with it.
fn read_credential(app: &App, order: &AuthCheckArgs) -> Result<SecretText, CommandFailure> {
    let text = match (&order.from_file, &order.from_env) {
        (Some(path), _) => {
            let path = app.context.directory.join(path);
            let unreadable = |error| CommandFailure::usage(format!("{} cannot be read: {error}", path.display()));
            read_some(std::fs::File::open(&path).map_err(unreadable)?)?
        }
        (None, Some(name)) => {
            let unset = || CommandFailure::usage(format!("the environment variable {name} is not set"));
            SecretText::new(app.context.environment.get(name).ok_or_else(unset)?)
        }
        (None, None) => read_some(std::io::stdin().lock())?,
    };
    let text = text.expose().trim();
    let text = text.strip_prefix("Authorization:").unwrap_or(text).trim();
    let text = text.strip_prefix("Bearer ").unwrap_or(text).trim();
    if text.is_empty() {
        let failure = CommandFailure::usage("there is no token or key to check");
        return Err(failure.with_hint("give it on standard input, with --from-file or with --from-env"));
    }
    Ok(SecretText::new(text))
}

fn read_some(source: impl Read) -> Result<SecretText, CommandFailure> {
    let mut text = String::new();
    match source.take(LONGEST).read_to_string(&mut text) {
        Ok(_) => Ok(SecretText::new(text)),
        Err(error) => Err(CommandFailure::usage(format!("the token or key cannot be read: {error}"))),
    }
}

/// What was found out about a credential.
struct CredentialVerdict {
    exit: CommandExit,
    /// What it is, what it may do, and the rule that decided; never the credential itself.
    facts: Vec<(&'static str, String)>,
}

impl CredentialVerdict {
    fn refused(kind: &str, rule: &str, reason: &str, hint: &str) -> Self {
        let mut verdict = Self { exit: CommandExit::Refused, facts: vec![("verdict", "refused".to_owned())] };
        for (name, text) in [("rule", rule), ("reason", reason), ("hint", hint), ("kind", kind)] {
            verdict.add(name, text);
        }
        verdict
    }

    fn accepted(kind: &str, authority: &Authority) -> Self {
        let mut verdict = Self { exit: CommandExit::Success, facts: vec![("verdict", "accepted".to_owned())] };
        verdict.add("kind", kind);
        verdict.add_authority(authority);
        verdict
    }

    /// Adds a fact that is not empty, without anything that could control a terminal.
    fn add(&mut self, name: &'static str, text: &str) {
        let plain: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(SHOWN).collect();
        if !plain.is_empty() {
            self.facts.push((name, plain));
        }
    }

    fn add_authority(&mut self, authority: &Authority) {
        self.add("identity", &authority.identity().to_string());
        if let Some(client) = &authority.owner().client {
            self.add("client", client.as_str());
        }
        if let Some(tenant) = authority.tenant() {
            self.add("tenant", tenant.as_str());
        }
        self.add("role", role_word(authority.role()));
        if let Some(scopes) = authority.scopes() {
            self.add("scopes", &scopes.iter().map(String::as_str).collect::<Vec<_>>().join(" "));
        }
        let left = authority.end().and_then(|end| end.duration_since(SystemTime::now()).ok());
        if let Some(left) = left {
            self.add("ends", &format!("in {} s", left.as_secs()));
        }
    }

    fn to_json(&self) -> Value {
        let facts: Map<String, Value> =
            self.facts.iter().map(|(name, text)| ((*name).to_owned(), json!(text))).collect();
        Value::Object(facts)
    }

    fn to_text(&self) -> String {
        let lines: Vec<String> = self.facts.iter().map(|(name, text)| format!("{name:<9} {text}")).collect();
        lines.join("\n")
    }
}

fn role_word(role: KeyRole) -> &'static str {
    match role {
        KeyRole::Reader => "readOnly",
        KeyRole::User => "user",
        KeyRole::Admin => "admin",
    }
}

/// Decides in the order of the gateway: what looks like a token is one, then keys, then opaque tokens.
async fn check(
    app: &App,
    settings: &CheckedSettings,
    credential: &SecretText,
    order: &AuthCheckArgs,
) -> Result<CredentialVerdict, CommandFailure> {
    let secret = credential.expose();
    let oauth = oauth::verifier(settings)?;
    let verifier = oauth.as_ref().map(|(_, verifier)| verifier);
    let resources = oauth.as_ref().map(|(resources, _)| &**resources);
    if let Some(verifier) = verifier.filter(|verifier| verifier.recognizes(secret)) {
        return Ok(check_token(verifier, resources, settings, secret, order).await);
    }
    let keys = all_keys(app, settings)?;
    let table = KeyTable::new(keys, EmptyKeyPolicy::Shut);
    let header = format!("Bearer {secret}").parse();
    let Ok(header) = header else {
        let reason = "it has characters that cannot be sent in a header";
        return Ok(CredentialVerdict::refused("unknown", "credentials", reason, "copy it again, on one line"));
    };
    match table.identify(&HeaderMap::from_iter([(AUTHORIZATION, header)])) {
        Ok(principal) => Ok(with_call("API key", principal.authority(), resources, settings, order)),
        Err(refusal) if refusal.is_guess => match verifier.filter(|verifier| verifier.takes_unknown(secret)) {
            Some(verifier) => Ok(check_token(verifier, resources, settings, secret, order).await),
            None => Ok(unknown_credential(secret, verifier.is_some())),
        },
        Err(refusal) => {
            let rule = refusal.rule.unwrap_or("credentials");
            Ok(CredentialVerdict::refused("API key", rule, &refusal.message, "`tsugi key add` makes a new one"))
        }
    }
}

fn all_keys(app: &App, settings: &CheckedSettings) -> Result<Vec<ApiKey>, CommandFailure> {
    let mut keys = gateway::keys(&settings.gateway.auth)?;
    if let Some(file) = app.key_file() {
        keys.extend(file.read()?.to_gateway()?);
    }
    Ok(keys)
}

fn unknown_credential(secret: &str, has_issuers: bool) -> CredentialVerdict {
    let is_signed = secret.starts_with("ey") && secret.matches('.').count() == 2;
    match (is_signed, has_issuers) {
        (true, _) => CredentialVerdict::refused(
            "access token (signed)",
            "iss",
            "no issuer is configured, so that no token is accepted",
            "list the issuer in `gateway.auth.issuers`, and set `gateway.publicUrl`",
        ),
        (false, true) => CredentialVerdict::refused(
            "unknown",
            "key",
            "it is neither a key of the gateway nor a signed token",
            "an opaque token needs `introspection` on its issuer; `tsugi key list` shows the keys",
        ),
        (false, false) => CredentialVerdict::refused(
            "unknown",
            "key",
            "this key is not known",
            "`tsugi key list` shows the keys of this machine; keys of the configuration are in `gateway.auth`",
        ),
    }
}

async fn check_token(
    verifier: &OAuthVerifier,
    resources: Option<&ResourceDirectory>,
    settings: &CheckedSettings,
    secret: &str,
    order: &AuthCheckArgs,
) -> CredentialVerdict {
    let parsed = UnverifiedToken::parse(secret).ok();
    let is_signed = secret.starts_with("ey") && secret.matches('.').count() == 2;
    let kind = if is_signed { "access token (signed)" } else { "access token (opaque)" };
    let denial = match verifier.explain(secret, &order.at).await {
        Ok(authority) => return with_call(kind, &authority, resources, settings, order),
        Err(denial) => denial,
    };
    let rule = denial.rule();
    let (mut verdict, issuer) = match &denial {
        TokenDenial::Refused { refusal, issuer } => {
            (CredentialVerdict::refused(kind, rule, &refusal.to_string(), refusal.hint()), issuer.clone())
        }
        TokenDenial::MissingScope { needed, granted, issuer } => {
            let reason = format!("the token lacks a scope: it has `{granted}`, and every request needs `{needed}`");
            let hint = "ask for a token with these scopes, or change `gateway.auth.scopes`";
            (CredentialVerdict::refused(kind, rule, &reason, hint), Some(issuer.clone()))
        }
        TokenDenial::Unavailable { issuer, .. } => {
            let reason = "the issuer could not be asked, or its keys could not be fetched; the log has the reason";
            let hint = "`-v` shows the log; `outbound.allow` names private addresses that may be fetched";
            let mut verdict = CredentialVerdict::refused(kind, rule, reason, hint);
            verdict.exit = CommandExit::Unreachable;
            (verdict, Some(issuer.clone()))
        }
    };
    verdict.add("issuer", issuer.as_deref().unwrap_or_default());
    verdict.add("at", &order.at);
    // What the token claims may be a lie, but it is what its owner wants to compare.
    for name in ["iss", "aud", "exp", "scope"] {
        if let Some(claim) = parsed.as_ref().and_then(|token| token.unverified_claim(name)) {
            verdict.add(name, &claim.to_string());
        }
    }
    verdict
}

/// The verdict of a good credential, and of the call that it was asked about.
fn with_call(
    kind: &str,
    authority: &Authority,
    resources: Option<&ResourceDirectory>,
    settings: &CheckedSettings,
    order: &AuthCheckArgs,
) -> CredentialVerdict {
    let Some((server, tool)) = order.call.as_deref().map(|call| call.split_once('/').unwrap_or((call, "*"))) else {
        return CredentialVerdict::accepted(kind, authority);
    };
    let refuse = |rule: &str, reason: &str, hint: &str| {
        let mut verdict = CredentialVerdict::refused(kind, rule, reason, hint);
        verdict.add_authority(authority);
        verdict
    };
    let tenants = settings.servers.iter().find(|known| known.name == server).map(|known| known.tenants.as_slice());
    let is_shown = tenants.is_none_or(|tenants| {
        let tenant = authority.tenant().map(TenantName::as_str);
        let is_above = tenant.is_none() && authority.role() == KeyRole::Admin;
        tenants.is_empty() || is_above || tenant.is_some_and(|tenant| tenants.iter().any(|known| known == tenant))
    });
    if authority.role() == KeyRole::Reader {
        return refuse("role", "this credential may look at the dashboard and call nothing", "use another credential");
    }
    if !is_shown {
        return refuse("tenant", "the server belongs to other tenants", "see `servers[].tenants` and `claims.tenant`");
    }
    if authority.permit().is_some_and(|permit| !permit.allows(server, tool)) {
        return refuse("permit", "`allow` and `deny` of this credential do not cover the tool", "widen `allow`");
    }
    if let Some(needed) = resources.and_then(|all| all.missing_scopes_of_tool(authority, server, tool)) {
        let reason = format!("the token lacks a scope: this call needs `{needed}`");
        return refuse("scope", &reason, "ask for a token with these scopes, or change `gateway.auth.scopes.rules`");
    }
    let mut verdict = CredentialVerdict::accepted(kind, authority);
    verdict.add("call", &format!("{server}/{tool}"));
    verdict
}
