//! `tsugi logout`: revokes the sign-in to a remote server, then forgets it.

use serde_json::{Value, json};
use tsugi_oauth::credential::SignOutResult;
use tsugi_oauth::credential::options::SignInWay;

use super::login::remote::{self, LoginTarget};
use crate::app::App;
use crate::app::credential_registry::{self, CredentialTerms};
use crate::cli::NoServerFlags;
use crate::config::layer::LoadedConfig;
use crate::failure::CommandFailure;
use crate::output::OutputFormat;
use crate::report::exit::CommandExit;

const EXAMPLES: &str = "\
Examples:
  tsugi logout linear
  tsugi logout --all              every sign-in of this user";

/// Sign out of a remote server
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct LogoutArgs {
    #[command(flatten)]
    _no_servers: NoServerFlags,
    /// The server's name, or its address
    #[arg(value_name = "SERVER", required_unless_present = "all", conflicts_with = "all")]
    server: Option<String>,
    /// Every server, configured or not
    #[arg(long)]
    all: bool,
    /// Print data only
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) async fn run(app: &App, args: &LogoutArgs) -> Result<CommandExit, CommandFailure> {
    let loaded = app.configuration()?;
    let targets = match &args.server {
        Some(server) => vec![LoginTarget::find(app, &loaded, server)?],
        None => all(app, &loaded).await?,
    };
    let mut done = Vec::new();
    for target in &targets {
        let result = sign_out(app, &loaded, target).await?;
        if app.output.form() == OutputFormat::Text {
            app.output.message(|_| told(&target.name, result));
        }
        done.push(json!({"server": target.name, "result": word(result)}));
    }
    match (app.output.form(), targets.is_empty()) {
        (OutputFormat::Json, _) => app.output.json(&Value::Array(done))?,
        (OutputFormat::Text, true) => app.output.message(|_| "there was no sign-in".to_owned()),
        (OutputFormat::Text, false) => {}
    }
    Ok(CommandExit::Success)
}

async fn sign_out(app: &App, loaded: &LoadedConfig, target: &LoginTarget) -> Result<SignOutResult, CommandFailure> {
    let terms = CredentialTerms::of(&loaded.settings);
    let vault = remote::vault(app, &terms)?;
    let made = credential_registry::credential(&target.name, &target.remote, &terms, vault, SignInWay::Elsewhere, &[]);
    made?.sign_out().await.map_err(|failure| remote::sign_in_failure(&target.name, &failure, false))
}

/// Every server that the vault has a sign-in for, by its configured name where it has one.
async fn all(app: &App, loaded: &LoadedConfig) -> Result<Vec<LoginTarget>, CommandFailure> {
    let vault = remote::vault(app, &CredentialTerms::of(&loaded.settings))?;
    let owners = vault.owners().await.map_err(|problem| CommandFailure::usage(problem.to_string()))?;
    let target = |address: &str| match LoginTarget::configured(loaded, address) {
        Some(target) => Ok(target),
        None => LoginTarget::of_address(app, address),
    };
    owners.iter().map(|owner| target(&owner.server)).collect()
}

fn told(name: &str, result: SignOutResult) -> String {
    match result {
        SignOutResult::Nothing => format!("{name}: there was no sign-in"),
        SignOutResult::Revoked => format!("{name}: signed out; its provider revoked the tokens"),
        SignOutResult::Forgotten => {
            format!("{name}: signed out; its provider did not confirm that it revoked the tokens")
        }
    }
}

fn word(result: SignOutResult) -> &'static str {
    match result {
        SignOutResult::Nothing => "nothing",
        SignOutResult::Revoked => "revoked",
        SignOutResult::Forgotten => "forgotten",
    }
}
