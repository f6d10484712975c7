//! `tsugi key`: makes, lists and revokes the keys with which callers come in.

use std::time::SystemTime;

use clap::Subcommand;
use clap::builder::NonEmptyStringValueParser;
use serde_json::json;
use tsugi_gateway::guard::api_key::{ApiKey, KeyRole};

use crate::app::App;
use crate::cli::NoServerFlags;
use crate::config::{layer, parse};
use crate::failure::CommandFailure;
use crate::key_file::{KeyFile, KeyFileContent, StoredKey};
use crate::output::OutputFormat;
use crate::output::table::TextTable;
use crate::report::exit::CommandExit;

const EXAMPLES: &str = "\
Examples:
  tsugi key add ann                              prints the key, once
  tsugi key add ci --allow 'files/read*' --per-minute 60 --max-in-flight 4
  tsugi key add guest --expires 2027-01-31 --tenant acme
  tsugi key add ops --admin                      may also control servers
  tsugi key add wall --read-only                 may only view the dashboard
  tsugi key revoke ann

Once a key exists, every caller of `tsugi serve` needs one. A running gateway picks up changes at once.";

/// Create, list and revoke the API keys of callers
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct KeyArgs {
    #[command(flatten)]
    _no_servers: NoServerFlags,
    #[command(subcommand)]
    order: KeyCommand,
    /// Print data only
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

#[derive(Debug, Subcommand)]
enum KeyCommand {
    /// Create a key and print it once; only its hash is stored
    Add(AddKeyArgs),
    /// List the keys
    List,
    /// Revoke a key
    Revoke {
        /// The key's name
        name: String,
    },
}

#[derive(Debug, clap::Args)]
struct AddKeyArgs {
    /// The name of the key; appears in logs
    name: String,
    /// The key may also control servers
    #[arg(long)]
    admin: bool,
    /// Only the dashboard, without calls or control
    #[arg(long, conflicts_with = "admin")]
    read_only: bool,
    /// Only these tools: a glob over server/tool; may be repeated
    #[arg(long, value_name = "GLOB", value_parser = glob)]
    allow: Vec<String>,
    /// Not these tools: a glob over server/tool, wins; may be repeated
    #[arg(long, value_name = "GLOB", value_parser = glob)]
    deny: Vec<String>,
    /// The tenant it belongs to: it sees only servers of that tenant and servers without one
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    tenant: Option<String>,
    /// When it ends, in UTC: 2027-01-31, or 2027-01-31T18:00:00Z
    #[arg(long, value_name = "TIME", value_parser = future_moment)]
    expires: Option<String>,
    /// Calls in a minute at most
    #[arg(long, value_name = "NUMBER", value_parser = positive::<u32>)]
    per_minute: Option<u32>,
    /// Calls at the same time at most
    #[arg(long, value_name = "NUMBER", value_parser = positive::<usize>)]
    max_in_flight: Option<usize>,
    /// Print the key and its hash for `gateway.auth.keys` without storing it
    #[arg(long)]
    print: bool,
}

fn glob(text: &str) -> Result<String, String> {
    parse::glob(text).map_err(|expected| format!("expected {}", expected.what))
}

/// A time that has passed is a mistake: the key would open nothing.
fn future_moment(text: &str) -> Result<String, String> {
    let moment = parse::moment(text).map_err(|expected| format!("expected {}", expected.what))?;
    if moment > SystemTime::now() { Ok(text.to_owned()) } else { Err("this time has passed".to_owned()) }
}

/// A limit of zero would make the key useless.
fn positive<T: std::str::FromStr + Default + PartialEq>(text: &str) -> Result<T, String> {
    parse::positive(text).map_err(|expected| format!("expected {}", expected.what))
}

pub(crate) fn run(app: &App, args: &KeyArgs) -> Result<CommandExit, CommandFailure> {
    let no_home = || CommandFailure::usage("there is no state directory: neither XDG_STATE_HOME nor HOME is set");
    let file = app.key_file().ok_or_else(no_home)?;
    match &args.order {
        KeyCommand::Add(order) => add(app, &file, order)?,
        KeyCommand::List => list(app, &file.read()?)?,
        KeyCommand::Revoke { name } => revoke(app, &file, name)?,
    }
    Ok(CommandExit::Success)
}

fn add(app: &App, file: &KeyFile, order: &AddKeyArgs) -> Result<(), CommandFailure> {
    let (secret, key) = ApiKey::generate(&order.name);
    // Only the digest is stored; the secret is printed below and then gone.
    let stored = order.stored(&key);
    // Checked before the key is shown, so that a refused key is never used.
    if !order.print {
        expect_free(app, &order.name)?;
        file.change(|keys| insert(keys, stored.clone()))?;
    }
    match app.output.form() {
        OutputFormat::Json => app.output.json(&json!({"name": stored.name, "key": secret, "hash": stored.hash}))?,
        OutputFormat::Text => {
            // The key alone on stdout, so that it can be piped.
            app.output.data(&secret)?;
            let told = match order.print {
                true => format!("its hash: {}", stored.hash),
                false => "shown only this once; only its hash is stored".to_owned(),
            };
            app.output.message(|paint| paint.faint(told));
        }
    }
    Ok(())
}

impl AddKeyArgs {
    fn stored(&self, key: &ApiKey) -> StoredKey {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        StoredKey {
            name: self.name.clone(),
            hash: key.digest().to_hex(),
            admin: self.admin,
            read_only: self.read_only,
            allow: self.allow.clone(),
            deny: self.deny.clone(),
            per_minute: self.per_minute,
            max_in_flight: self.max_in_flight,
            tenant: self.tenant.clone(),
            expires: self.expires.clone(),
            created: now.map_or(0, |time| time.as_secs()),
        }
    }
}

/// Calls carry only the name of their key, so names must be unique.
fn expect_free(app: &App, name: &str) -> Result<(), CommandFailure> {
    // An unreadable configuration is reported by `tsugi check`, and would not start a gateway either.
    let Ok(loaded) = layer::load(&app.wish(), &app.context) else { return Ok(()) };
    if loaded.settings.gateway.auth.knows(name) {
        let message = format!("the configuration has a key named `{name}` already");
        return Err(CommandFailure::usage(message).with_hint("choose another name, or take it out of `gateway.auth`"));
    }
    Ok(())
}

fn insert(keys: &mut KeyFileContent, key: StoredKey) -> Result<(), CommandFailure> {
    if keys.keys.iter().any(|known| known.name == key.name) {
        let hint = format!("revoke the old one first: tsugi key revoke {}", key.name);
        return Err(CommandFailure::usage(format!("a key named `{}` exists already", key.name)).with_hint(hint));
    }
    keys.keys.push(key);
    Ok(())
}

fn revoke(app: &App, file: &KeyFile, name: &str) -> Result<(), CommandFailure> {
    file.change(|keys| {
        let before = keys.keys.len();
        keys.keys.retain(|key| key.name != name);
        // Inside the change, so that two revocations cannot both succeed.
        let is_gone = keys.keys.len() < before;
        is_gone.then_some(()).ok_or_else(|| CommandFailure::usage(format!("there is no key named `{name}`")))
    })?;
    app.output.message(|_| format!("revoked the key `{name}`"));
    Ok(())
}

fn role(key: &StoredKey) -> &'static str {
    match key.role() {
        KeyRole::Admin => "admin",
        KeyRole::User => "user",
        KeyRole::Reader => "read-only",
    }
}

/// When a key ends, or that it has ended.
fn ends(expires: &str) -> String {
    let is_over = parse::moment(expires).is_ok_and(|moment| moment <= SystemTime::now());
    format!("{expires}{}", if is_over { " (over)" } else { "" })
}

fn number(limit: Option<impl ToString>) -> String {
    limit.map(|calls| calls.to_string()).unwrap_or_default()
}

fn list(app: &App, keys: &KeyFileContent) -> Result<(), CommandFailure> {
    if app.output.form() == OutputFormat::Json {
        return Ok(app.output.json(keys)?);
    }
    let mut table = TextTable::new(["name", "role", "allow", "deny", "per minute", "in flight", "tenant", "expires"]);
    for key in &keys.keys {
        table.row([
            key.name.clone(),
            role(key).to_owned(),
            key.allow.join(" "),
            key.deny.join(" "),
            number(key.per_minute),
            number(key.max_in_flight),
            key.tenant.clone().unwrap_or_default(),
            key.expires.as_deref().map(ends).unwrap_or_default(),
        ]);
    }
    Ok(app.output.table(&table)?)
}
