//! The command line: flags that every subcommand knows, and the list of subcommands.
//!
//! A subcommand is one file in `command/` with its own `Args` and its own `run`; it appears here once, in [`CliCommand`].

use std::ffi::OsString;
use std::path::PathBuf;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::parser::ValueSource;
use clap::{ArgAction, Parser, Subcommand};

use crate::command;
use crate::logging::LogFormat;
use crate::output::OutputFormat;

const EXAMPLES: &str = "\
Examples:
  tsugi serve                                        every configured server at one address
  tsugi tools                                        the tools of every configured server
  tsugi call demo/calculate-bmi weight_kg=70 height_m=1.75
  tsugi tools --command \"npx -y @modelcontextprotocol/server-everything\"
  tsugi call --url https://example.com/mcp search query=tsugi
  MCP_URLS=http://one:8000/sse,http://two:8000/mcp tsugi servers

Without --config, --command or --url, tsugi takes MCP_URLS, then tsugi.yaml here (or
mcp.config.yaml, config.yaml), then ~/.config/tsugi/tsugi.yaml, and else its built-in servers.
Data goes to stdout and talk to stderr.
Exit codes: 0 well, 1 failed, 2 cannot be used, 3 unreachable, 4 too late, 5 refused,
6 needs input, 130 interrupted.";

/// Join any MCP client to any MCP server.
#[derive(Debug, Parser)]
#[command(name = "tsugi", version, after_help = EXAMPLES, subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct CommandLine {
    #[command(flatten)]
    pub(crate) common: GlobalFlags,
    #[command(subcommand)]
    pub(crate) command: CliCommand,
}

/// Flags that every subcommand knows.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct GlobalFlags {
    /// The configuration file
    #[arg(long, value_name = "FILE", global = true, help_heading = "Which servers")]
    pub(crate) config: Option<PathBuf>,
    /// A server on the spot: a program and its arguments, split as a shell would, without a shell
    #[arg(id = "spot", long = "command", value_name = "LINE", global = true, help_heading = "Which servers")]
    pub(crate) command: Option<String>,
    /// A server on the spot: its address (http, https, ws or wss)
    #[arg(long, value_name = "URL", global = true, help_heading = "Which servers", conflicts_with = "spot")]
    pub(crate) url: Option<String>,
    /// A header of every request to --url, such as "Authorization: Bearer …"; may be repeated
    #[arg(long = "header", value_name = "NAME: VALUE", global = true, help_heading = "Which servers")]
    pub(crate) headers: Vec<String>,
    /// A variable for the program of --command: NAME=VALUE, or NAME to pass on our own; may be repeated
    #[arg(long = "env", value_name = "NAME[=VALUE]", global = true, help_heading = "Which servers")]
    pub(crate) env: Vec<String>,
    /// Only this server; may be repeated. With --command or --url, the name it gets
    #[arg(long = "server", value_name = "NAME", global = true, help_heading = "Which servers")]
    pub(crate) servers: Vec<String>,
    /// Say more: -v for every call, -vv for details
    #[arg(short, long, action = ArgAction::Count, global = true, help_heading = "Talk")]
    pub(crate) verbose: u8,
    /// Say nothing but errors
    #[arg(short, long, global = true, help_heading = "Talk", conflicts_with = "verbose")]
    pub(crate) quiet: bool,
    /// What log lines look like; TSUGI_LOG_FORMAT says it too
    #[arg(long, value_name = "FORMAT", global = true, help_heading = "Talk")]
    pub(crate) log_format: Option<LogFormat>,
    /// Never ask anything, even on a terminal
    #[arg(long, global = true, help_heading = "Talk")]
    pub(crate) no_input: bool,
}

/// What can be done.
#[derive(Debug, Subcommand)]
pub(crate) enum CliCommand {
    /// Offer the servers to MCP clients, REST callers and agents at one address
    Serve(command::serve::ServeArgs),
    /// Offer the servers over standard input and output
    Stdio(command::stdio::StdioArgs),
    /// Show how the servers of a running gateway stand
    Status(command::status::StatusArgs),
    /// Show what a server of a running gateway wrote to its standard error
    Logs(command::logs::LogsArgs),
    /// Stop a server of a running gateway and start it again
    Restart(command::restart::RestartArgs),
    /// Make, list and revoke the keys with which callers come in
    Key(command::key::KeyArgs),
    /// List the tools of the servers, also in the words of a model provider
    Tools(command::tools::ToolsArgs),
    /// Call a tool
    Call(command::call::CallArgs),
    /// Call many tools at once
    Batch(command::batch::BatchArgs),
    /// List the prompts of the servers
    Prompts(command::prompts::PromptsArgs),
    /// Render a prompt, like a slash command
    Prompt(command::prompt::PromptArgs),
    /// List the resources and resource templates of the servers
    Resources(command::resources::ResourcesArgs),
    /// Read a resource
    Read(command::read::ReadArgs),
    /// Connect to the servers and show how they stand
    Servers(command::servers::ServersArgs),
    /// Check the configuration, and with --connect the servers
    Check(command::check::CheckArgs),
    /// Try every server, name the cause of what is wrong, and say what to do
    Doctor(command::doctor::DoctorArgs),
    /// Find the servers of other programs and write one tsugi.yaml
    Init(command::init::InitArgs),
    /// Bring back the files of other programs that `tsugi init --write-clients` changed
    Restore(command::restore::RestoreArgs),
    /// Add a server to the configuration
    Add(command::add::AddArgs),
    /// Remove a server from the configuration
    Remove(command::remove::RemoveArgs),
    /// Turn another program's configuration into a tsugi.yaml
    Import(command::import::ImportArgs),
    /// Write the configured servers as another program's file
    Export(command::export::ExportArgs),
    /// Share projects, tasks, context and handoffs between agents
    Pm(command::pm::PmArgs),
    /// Write the completions for a shell
    Completions(command::completions::CompletionsArgs),
    /// Write the manual page, or one for each command
    Man(command::completions::ManArgs),
}

impl CliCommand {
    /// How data is to be printed.
    pub(crate) fn form(&self) -> OutputFormat {
        let is_json = match self {
            CliCommand::Tools(args) => args.json,
            CliCommand::Call(args) => args.is_json(),
            CliCommand::Prompt(args) => args.is_json(),
            CliCommand::Prompts(args) => args.json,
            CliCommand::Resources(args) => args.json,
            CliCommand::Read(args) => args.json,
            CliCommand::Servers(args) => args.json,
            CliCommand::Check(args) => args.json,
            CliCommand::Doctor(args) => args.json,
            CliCommand::Status(args) => args.json,
            CliCommand::Logs(args) => args.json,
            CliCommand::Restart(args) => args.json,
            CliCommand::Key(args) => args.json,
            CliCommand::Pm(args) => args.json,
            CliCommand::Add(args) => args.json,
            CliCommand::Remove(args) => args.json,
            CliCommand::Import(args) => args.json,
            CliCommand::Export(args) => args.json,
            CliCommand::Init(args) => args.json,
            CliCommand::Restore(args) => args.json,
            CliCommand::Serve(args) => args.json,
            CliCommand::Batch(_) => true,
            // What these write is for a program already.
            CliCommand::Stdio(_) | CliCommand::Completions(_) | CliCommand::Man(_) => false,
        };
        if is_json { OutputFormat::Json } else { OutputFormat::Text }
    }

    /// Whether it runs until someone ends it: such a command minds signals itself, and uses the whole machine.
    pub(crate) fn is_service(&self) -> bool {
        match self {
            CliCommand::Serve(_) | CliCommand::Stdio(_) => true,
            CliCommand::Pm(args) => args.is_service(),
            _ => false,
        }
    }
}

/// Reads the command line of this process; ends it for `--help` and for what cannot be understood.
pub(crate) fn parse() -> CommandLine {
    let words = with_joined_json(std::env::args_os());
    CommandLine::try_parse_from(&words).unwrap_or_else(|error| with_advice(error, &words).exit())
}

/// Who leaves out the two dashes of `tsugi add` is told where they go.
fn with_advice(mut error: clap::Error, words: &[OsString]) -> clap::Error {
    let mut words: Vec<String> = words.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let is_add = words.get(1).is_some_and(|word| word == "add") && words.len() > 3;
    let has_flags_only_behind = words.get(2..4).is_some_and(|two| two.iter().all(|word| !word.starts_with('-')));
    if error.kind() == ErrorKind::UnknownArgument && is_add && has_flags_only_behind {
        words.insert(3, "--".to_owned());
        let hint = format!("put -- before the program: tsugi {}", words[1..].join(" "));
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![hint.into()]));
    }
    error
}

/// Stands in a command that has no use for servers: the flags that choose them are not shown there, and refused.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NoServerFlags;

impl NoServerFlags {
    /// The flags in question, hidden. A command's own flag stands before a global one of the same name.
    fn flags() -> impl Iterator<Item = clap::Arg> {
        let common = <GlobalFlags as clap::Args>::augment_args(clap::Command::new("common"));
        let flags: Vec<clap::Arg> = common.get_arguments().cloned().collect();
        flags
            .into_iter()
            .filter(|flag| flag.get_help_heading() == Some("Which servers") && flag.get_id() != "config")
            .map(|flag| flag.hide(true))
    }
}

impl clap::Args for NoServerFlags {
    fn augment_args(command: clap::Command) -> clap::Command {
        command.args(Self::flags())
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        Self::augment_args(command)
    }
}

impl clap::FromArgMatches for NoServerFlags {
    fn from_arg_matches(matches: &clap::ArgMatches) -> Result<Self, clap::Error> {
        let given =
            Self::flags().find(|flag| matches.value_source(flag.get_id().as_str()) == Some(ValueSource::CommandLine));
        match given.as_ref().and_then(clap::Arg::get_long) {
            None => Ok(NoServerFlags),
            Some(flag) => Err(clap::Error::raw(
                ErrorKind::UnknownArgument,
                format!("--{flag} means nothing here: this command uses no servers\n"),
            )),
        }
    }

    fn update_from_arg_matches(&mut self, matches: &clap::ArgMatches) -> Result<(), clap::Error> {
        Self::from_arg_matches(matches).map(drop)
    }
}

/// Joins `--json {…}` to `--json={…}`: the flag has a value only where an object follows it, so that it can
/// stand anywhere without swallowing the next word.
fn with_joined_json(words: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut joined: Vec<OsString> = Vec::new();
    for word in words {
        let is_object = word.to_str().is_some_and(|text| text.trim_start().starts_with('{'));
        match joined.last_mut() {
            Some(last) if is_object && last == "--json" => {
                last.push("=");
                last.push(word);
            }
            _ => joined.push(word),
        }
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_well_defined() {
        CommandLine::command().debug_assert();
    }

    /// The help of a command and of those below it, as sections of a page. What is shared stands at the top only.
    fn sections(command: &clap::Command, name: &str, page: &mut String) {
        let mut alone = command.clone().bin_name(name).term_width(100).disable_help_subcommand(true);
        let help = alone.render_help().to_string();
        let lines: Vec<&str> = help.lines().map(str::trim_end).collect();
        page.push_str(&format!("\n## `{name}`\n\n```text\n{}\n```\n", lines.join("\n").trim_end()));
        for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
            sections(below, &format!("{name} {}", below.get_name()), page);
        }
    }

    #[test]
    fn the_reference_page_is_fresh() {
        let mut page = "# The command line\n\n<!-- Generated from `crates/tsugi/src/args.rs` and `command/`. \
                        `UPDATE_GOLDEN=1 cargo nextest run -p tsugi` writes it anew. -->\n\n\
                        The flags of `tsugi` itself may stand after every command too.\n"
            .to_owned();
        sections(&CommandLine::command(), "tsugi", &mut page);
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/command-line.md");
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            std::fs::write(&path, &page).unwrap();
        }
        assert_eq!(page, std::fs::read_to_string(&path).unwrap_or_default(), "UPDATE_GOLDEN=1 writes it anew");
    }

    fn call(words: &[&str]) -> command::call::CallArgs {
        let words = ["tsugi", "call"].iter().chain(words).map(OsString::from);
        match CommandLine::try_parse_from(with_joined_json(words)).unwrap().command {
            CliCommand::Call(args) => args,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn json_takes_an_object_where_one_follows_and_nothing_else() {
        assert!(call(&["--json", "echo", "a=1"]).is_json());
        assert_eq!(call(&["--json", "echo", "a=1"]).tool, "echo");
        let args = call(&["echo", "--json", "{\"a\":1}"]);
        assert_eq!((args.tool.as_str(), args.is_json()), ("echo", true));
        assert!(!call(&["echo", "a={\"b\":1}"]).is_json());
    }
}
