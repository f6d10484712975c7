//! `tsugi config`: what can be configured, for programs that help to write it.

use crate::app::App;
use crate::cli::NoServerFlags;
use crate::config::key::schema;
use crate::failure::CommandFailure;
use crate::report::exit::CommandExit;

const EXAMPLES: &str = "\
Editors use the schema to complete and check a configuration. `tsugi init` writes it beside
tsugi.yaml, with the comment that makes editors find it. It needs no network.

Examples:
  tsugi config schema > tsugi.schema.json
  sed -i '1i # yaml-language-server: $schema=./tsugi.schema.json' tsugi.yaml";

/// Describe the configuration
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct ConfigArgs {
    #[command(flatten)]
    _no_servers: NoServerFlags,
    #[command(subcommand)]
    command: ConfigCommand,
}

#[derive(Debug, clap::Subcommand)]
enum ConfigCommand {
    /// Print the JSON Schema of tsugi.yaml
    Schema,
}

pub(crate) fn run(app: &App, args: &ConfigArgs) -> Result<CommandExit, CommandFailure> {
    match args.command {
        ConfigCommand::Schema => app.output.data(&schema::text())?,
    }
    Ok(CommandExit::Success)
}
