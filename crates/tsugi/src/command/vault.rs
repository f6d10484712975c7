//! `tsugi vault`: seals the sign-ins to remote servers with another key.

use clap::Subcommand;
use serde_json::json;

use super::login::remote;
use crate::app::App;
use crate::app::credential_registry::CredentialTerms;
use crate::cli::NoServerFlags;
use crate::failure::CommandFailure;
use crate::output::OutputFormat;
use crate::report::exit::CommandExit;

const EXAMPLES: &str = "\
Examples:
  tsugi vault rekey      a new key, where the key stands in a file beside the vault

With `vault.key` in the configuration: set it to the new key and `vault.previousKey` to the old one,
run this, then take `vault.previousKey` out. Running gateways need not be restarted for a key file.";

/// Keep the sign-ins to remote servers safe
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct VaultArgs {
    #[command(flatten)]
    _no_servers: NoServerFlags,
    #[command(subcommand)]
    order: VaultCommand,
    /// Print data only
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

#[derive(Debug, Subcommand)]
enum VaultCommand {
    /// Seal every sign-in with a new key
    Rekey,
}

pub(crate) async fn run(app: &App, args: &VaultArgs) -> Result<CommandExit, CommandFailure> {
    let VaultCommand::Rekey = args.order;
    let loaded = app.configuration()?;
    let vault = remote::vault(app, &CredentialTerms::of(&loaded.settings))?;
    let count = vault.rekey().await.map_err(|problem| CommandFailure::usage(problem.to_string()))?;
    match app.output.form() {
        OutputFormat::Json => app.output.json(&json!({"resealed": count}))?,
        OutputFormat::Text => app.output.message(|_| format!("sealed again with the new key: {count}")),
    }
    Ok(CommandExit::Success)
}
