//! The command line: global flags and the list of subcommands.
//!
//! A subcommand is one file in `command/` with its arguments and its `run`. It appears here once, in [`CliCommand`].

use std::ffi::OsString;
use std::path::PathBuf;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::parser::ValueSource;
use clap::{ArgAction, Parser, Subcommand};
use tsugi_pins::store::PinWriting;

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

Without --config, --command or --url, tsugi uses MCP_URLS, then tsugi.yaml in this directory (or
mcp.config.yaml, config.yaml), then ~/.config/tsugi/tsugi.yaml, then its built-in servers.
Data goes to stdout, messages go to stderr.
Exit codes: 0 success, 1 failed, 2 usage error, 3 server unreachable, 4 timeout, 5 refused,
6 input required, 130 interrupted.";

const SHORT_HELP_END: &str = "\
`tsugi --help` shows examples, global options and exit codes; `tsugi COMMAND --help` shows one command.";

/// The heading of the flags that choose servers. [`NoServerFlags`] finds them by it.
const SERVER_SELECTION: &str = "Server selection";
const OUTPUT: &str = "Output";

/// Join any MCP client to any MCP server.
#[derive(Debug, Parser)]
#[command(
    name = "tsugi",
    version,
    after_help = SHORT_HELP_END,
    after_long_help = EXAMPLES,
    subcommand_required = true,
    arg_required_else_help = true
)]
pub(crate) struct CommandLine {
    #[command(flatten)]
    pub(crate) common: GlobalFlags,
    #[command(subcommand)]
    pub(crate) command: CliCommand,
}

/// Flags that every subcommand accepts. Only the two most used appear in `-h`: the others would fill its screen.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct GlobalFlags {
    /// The configuration file
    #[arg(long, value_name = "FILE", global = true, help_heading = SERVER_SELECTION)]
    pub(crate) config: Option<PathBuf>,
    /// Ad-hoc server: a program and its arguments, split like a shell command but run without a shell
    #[arg(
        id = "ad_hoc",
        long = "command",
        value_name = "LINE",
        global = true,
        help_heading = SERVER_SELECTION,
        hide_short_help = true
    )]
    pub(crate) command: Option<String>,
    /// Ad-hoc server: its address (http, https, ws or wss)
    #[arg(
        long,
        value_name = "URL",
        global = true,
        help_heading = SERVER_SELECTION,
        hide_short_help = true,
        conflicts_with = "ad_hoc"
    )]
    pub(crate) url: Option<String>,
    /// Header for every request to --url, such as "Authorization: Bearer …"; repeatable
    #[arg(
        long = "header",
        value_name = "NAME: VALUE",
        global = true,
        help_heading = SERVER_SELECTION,
        hide_short_help = true
    )]
    pub(crate) headers: Vec<String>,
    /// Variable for the program of --command: NAME=VALUE, or NAME to pass on the current value; repeatable
    #[arg(
        long = "env",
        value_name = "NAME[=VALUE]",
        global = true,
        help_heading = SERVER_SELECTION,
        hide_short_help = true
    )]
    pub(crate) env: Vec<String>,
    /// Use only this server; repeatable. With --command or --url, the name of that server
    #[arg(long = "server", value_name = "NAME", global = true, help_heading = SERVER_SELECTION)]
    pub(crate) servers: Vec<String>,
    /// Show more: -v logs every call, -vv details
    #[arg(short, long, action = ArgAction::Count, global = true, help_heading = OUTPUT, hide_short_help = true)]
    pub(crate) verbose: u8,
    /// Show only errors
    #[arg(short, long, global = true, help_heading = OUTPUT, hide_short_help = true, conflicts_with = "verbose")]
    pub(crate) quiet: bool,
    /// Format of log lines; also set by TSUGI_LOG_FORMAT
    #[arg(long, value_name = "FORMAT", global = true, help_heading = OUTPUT, hide_short_help = true)]
    pub(crate) log_format: Option<LogFormat>,
    /// Never prompt, even on a terminal
    #[arg(long, global = true, help_heading = OUTPUT, hide_short_help = true)]
    pub(crate) no_input: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum CliCommand {
    /// Serve the configured servers to MCP clients, REST callers and agents at one address
    Serve(command::serve::ServeArgs),
    /// Serve the configured servers over standard input and output
    Stdio(command::stdio::StdioArgs),
    /// Show the servers of a running gateway
    Status(command::status::StatusArgs),
    /// Show the standard error of a server of a running gateway
    Logs(command::logs::LogsArgs),
    /// Restart a server of a running gateway
    Restart(command::restart::RestartArgs),
    /// Create, list and revoke the API keys of callers
    Key(command::key::KeyArgs),
    /// Sign in to a remote server
    Login(command::login::LoginArgs),
    /// Sign out of a remote server
    Logout(command::logout::LogoutArgs),
    /// Keep the sign-ins to remote servers safe
    Vault(command::vault::VaultArgs),
    /// Explain why a token or key is accepted or refused
    Auth(command::auth::AuthArgs),
    /// Verify and read the audit log
    Audit(command::audit::AuditArgs),
    /// Check the rules of the policy, explain a decision, or try them on past calls
    Policy(command::policy::PolicyArgs),
    /// List tools, optionally in the format of a model provider
    Tools(command::tools::ToolsArgs),
    /// Call a tool
    Call(command::call::CallArgs),
    /// Call many tools at once
    Batch(command::batch::BatchArgs),
    /// List prompts
    Prompts(command::prompts::PromptsArgs),
    /// Render a prompt, like a slash command
    Prompt(command::prompt::PromptArgs),
    /// List resources and resource templates
    Resources(command::resources::ResourcesArgs),
    /// Read a resource
    Read(command::read::ReadArgs),
    /// List the skills of the servers, or show one
    Skills(command::skills::SkillsArgs),
    /// Connect to the servers and show their state
    Servers(command::servers::ServersArgs),
    /// Check the configuration, and with --connect the servers
    Check(command::check::CheckArgs),
    /// Pin what the servers offer now, or accept one change
    Lock(command::lock::LockArgs),
    /// Show what differs from the pins, word by word
    Diff(command::diff::DiffArgs),
    /// Describe the configuration, such as its JSON Schema
    Config(command::config::ConfigArgs),
    /// Try every server, name the cause of each failure and suggest a fix
    Doctor(command::doctor::DoctorArgs),
    /// Import the servers of other programs into one tsugi.yaml
    Init(command::init::InitArgs),
    /// Undo the changes that `tsugi init --write-clients` made to other programs' files
    UndoInit(command::undo_init::RestoreArgs),
    /// Add a server to the configuration
    Add(command::add::AddArgs),
    /// Remove a server from the configuration
    Remove(command::remove::RemoveArgs),
    /// Convert another program's configuration to a tsugi.yaml
    Import(command::import::ImportArgs),
    /// Write the configured servers as another program's file
    Export(command::export::ExportArgs),
    /// Share projects, tasks, context and handoffs between agents
    Pm(command::pm::PmArgs),
    /// Print what can follow the words of a command line, for shell completions
    #[command(hide = true)]
    Complete(command::complete::CompleteArgs),
    /// Print shell completions
    Completions(command::completions::CompletionsArgs),
    /// Print the manual page, or write one for each command
    Man(command::completions::ManArgs),
}

impl CliCommand {
    pub(crate) fn form(&self) -> OutputFormat {
        let is_json = match self {
            CliCommand::Tools(args) => args.json,
            CliCommand::Call(args) => args.is_json(),
            CliCommand::Prompt(args) => args.is_json(),
            CliCommand::Prompts(args) => args.json,
            CliCommand::Resources(args) => args.json,
            CliCommand::Read(args) => args.json,
            CliCommand::Skills(args) => args.json,
            CliCommand::Servers(args) => args.json,
            CliCommand::Check(args) => args.json,
            CliCommand::Doctor(args) => args.json,
            CliCommand::Lock(args) => args.json,
            CliCommand::Diff(args) => args.json,
            CliCommand::Status(args) => args.json,
            CliCommand::Logs(args) => args.json,
            CliCommand::Restart(args) => args.json,
            CliCommand::Key(args) => args.json,
            CliCommand::Auth(args) => args.json,
            CliCommand::Login(args) => args.json,
            CliCommand::Logout(args) => args.json,
            CliCommand::Vault(args) => args.json,
            CliCommand::Audit(args) => args.json,
            CliCommand::Policy(args) => args.json,
            CliCommand::Pm(args) => args.json,
            CliCommand::Add(args) => args.json,
            CliCommand::Remove(args) => args.json,
            CliCommand::Import(args) => args.json,
            CliCommand::Export(args) => args.json,
            CliCommand::Init(args) => args.json,
            CliCommand::UndoInit(args) => args.json,
            CliCommand::Serve(args) => args.json,
            CliCommand::Batch(_) => true,
            // Their output is machine-readable without a flag.
            CliCommand::Stdio(_)
            | CliCommand::Config(_)
            | CliCommand::Complete(_)
            | CliCommand::Completions(_)
            | CliCommand::Man(_) => false,
        };
        if is_json { OutputFormat::Json } else { OutputFormat::Text }
    }

    /// Whether it pins what it sees first. `lock` and `diff` show that instead.
    pub(crate) fn pin_writing(&self) -> PinWriting {
        match self {
            CliCommand::Lock(_) | CliCommand::Diff(_) => PinWriting::OnOrder,
            _ => PinWriting::FirstSight,
        }
    }

    /// Whether it runs until it is stopped. A service handles signals itself and uses all cores.
    pub(crate) fn is_service(&self) -> bool {
        match self {
            CliCommand::Serve(_) | CliCommand::Stdio(_) => true,
            CliCommand::Pm(args) => args.is_service(),
            _ => false,
        }
    }
}

/// Parses the command line of this process. `--help` and usage errors end the process.
pub(crate) fn parse() -> CommandLine {
    let words = with_joined_json(std::env::args_os());
    CommandLine::try_parse_from(&words).unwrap_or_else(|error| with_advice(error, &words).exit())
}

/// Adds a hint to `tsugi add NAME PROGRAM …` without the two dashes before the program.
fn with_advice(mut error: clap::Error, words: &[OsString]) -> clap::Error {
    let mut words: Vec<String> = words.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    // `tsugi add NAME PROGRAM …`: at least the name and one word of the program.
    let is_add = words.get(1).is_some_and(|word| word == "add") && words.len() > 3;
    let has_flags_only_behind = words.get(2..4).is_some_and(|two| two.iter().all(|word| !word.starts_with('-')));
    if error.kind() == ErrorKind::UnknownArgument && is_add && has_flags_only_behind {
        // After `tsugi add NAME`.
        words.insert(3, "--".to_owned());
        let hint = format!("put -- before the program: tsugi {}", words[1..].join(" "));
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![hint.into()]));
    }
    error
}

/// Flattened into a command that starts no servers: hides the flags that choose servers, and refuses them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NoServerFlags;

impl NoServerFlags {
    /// The flags to refuse, hidden. A command's own flag takes precedence over a global one with the same name.
    fn flags() -> impl Iterator<Item = clap::Arg> {
        // clap has no other way to list the arguments of a struct.
        let common = <GlobalFlags as clap::Args>::augment_args(clap::Command::new("common"));
        let flags: Vec<clap::Arg> = common.get_arguments().cloned().collect();
        flags
            .into_iter()
            .filter(|flag| flag.get_help_heading() == Some(SERVER_SELECTION) && flag.get_id() != "config")
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
        // A default value is not a flag that the user gave.
        let given =
            Self::flags().find(|flag| matches.value_source(flag.get_id().as_str()) == Some(ValueSource::CommandLine));
        let Some(flag) = given.as_ref().and_then(clap::Arg::get_long) else { return Ok(NoServerFlags) };
        // Commands that talk to a running gateway define --gateway, which is probably what was meant.
        let hint = match matches.try_contains_id("gateway") {
            Ok(_) => "\n\n  tip: name the running gateway with --gateway URL\n",
            Err(_) => "\n",
        };
        let message = format!("--{flag} has no effect here: this command does not start servers{hint}");
        Err(clap::Error::raw(ErrorKind::UnknownArgument, message))
    }

    fn update_from_arg_matches(&mut self, matches: &clap::ArgMatches) -> Result<(), clap::Error> {
        Self::from_arg_matches(matches).map(drop)
    }
}

/// Joins `--json {…}` to `--json={…}`. The flag takes a value only when an object follows, so that it can stand
/// anywhere without consuming the next word.
fn with_joined_json(words: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut joined: Vec<OsString> = Vec::new();
    for word in words {
        // Anything else after `--json` is the next positional word.
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

    /// The help of a command and its subcommands as sections of a page, complete but in the compact layout of `-h`.
    /// Global flags appear at the top only.
    fn sections(command: &clap::Command, name: &str, page: &mut String) {
        let mut alone = command.clone().bin_name(name).term_width(100).disable_help_subcommand(true);
        alone = alone.mut_args(|arg| arg.hide_short_help(false));
        if let Some(end) = command.get_after_long_help().cloned() {
            alone = alone.after_help(end);
        }
        let help = alone.render_help().to_string();
        let lines: Vec<&str> = help.lines().map(str::trim_end).collect();
        page.push_str(&format!("\n## `{name}`\n\n```text\n{}\n```\n", lines.join("\n").trim_end()));
        for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
            sections(below, &format!("{name} {}", below.get_name()), page);
        }
    }

    #[test]
    fn the_reference_page_is_fresh() {
        let mut page = "# The command line\n\n<!-- Generated from `crates/tsugi/src/cli.rs` and `command/`. \
                        `UPDATE_GOLDEN=1 cargo nextest run -p tsugi` updates it. -->\n\n\
                        The flags of `tsugi` itself may also follow a command.\n"
            .to_owned();
        sections(&CommandLine::command(), "tsugi", &mut page);
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/command-line.md");
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            std::fs::write(&path, &page).unwrap();
        }
        assert_eq!(page, std::fs::read_to_string(&path).unwrap_or_default(), "UPDATE_GOLDEN=1 updates it");
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
