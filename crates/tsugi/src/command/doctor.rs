//! `tsugi doctor`: tries every server, names the cause of each failure and suggests a fix.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};
use tsugi_client::ServerStatus;
use tsugi_client::config::InstancePolicy;
use tsugi_client::diagnosis::{self, FailureCause, ServerEvidence};
use tsugi_protocol::answer::Fault;

use super::input::duration;
use super::login::remote as login;
use crate::app::server::command;
use crate::app::{App, StartOptions, select};
use crate::config::layer::LoadedConfig;
use crate::config::settings::{ServerSettings, ServerTarget};
use crate::doctor::{fix, version};
use crate::failure::CommandFailure;
use crate::locate::{ReachedServer, reach};
use crate::output::style::TextPaint;
use crate::output::table::TextTable;
use crate::output::{OutputFormat, printable};
use crate::report::exit::CommandExit;

const EXAMPLES: &str = "\
For each server: does its program exist, does it start, which era and revision does it speak, how
long does it take, what does it print to standard error, and how to fix it.
--fix repairs only what is safe: it makes your own script executable, passes on a variable that is
set but not named in the entry, and makes a readable secrets file private.
Exits with 0 if every server works, even with warnings.

Examples:
  tsugi doctor
  tsugi doctor files github --fix
  tsugi doctor --json";

/// How many of a server's last lines of standard error are shown.
const WORDS: usize = 8;

/// Try every server, name the cause of each failure and suggest a fix
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct DoctorArgs {
    /// Only these servers
    #[arg(value_name = "SERVER")]
    servers: Vec<String>,
    /// Apply the fixes that are safe
    #[arg(long)]
    fix: bool,
    /// How long a server may take to become ready [default: 30s, or 2m if npx, uvx, docker or the like may have to
    /// download it]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    timeout: Option<Duration>,
    /// Print data only
    #[arg(long)]
    pub(crate) json: bool,
}

/// From how many broken servers on the report ends with a table.
const FEW: usize = 4;

/// Longest message in that table.
const LONGEST: usize = 100;

struct ServerDiagnosis {
    name: String,
    target: String,
    /// The program's file, if it was found.
    program: Option<PathBuf>,
    status: Option<ServerStatus>,
    tools: Option<usize>,
    took: Option<Duration>,
    stderr: Vec<String>,
    noise: Vec<String>,
    fault: Option<Fault>,
    cause: Option<FailureCause>,
    /// The cause in a sentence and what to try, with secrets masked.
    words: Option<(String, String)>,
    /// It asks questions, and all callers share its one instance.
    takes_turns: bool,
    /// The installed interpreter, if the server requires another version.
    installed: Option<String>,
    fixed: Option<String>,
}

pub(crate) async fn run(app: &App, args: &DoctorArgs) -> Result<CommandExit, CommandFailure> {
    let loaded = app.configuration()?;
    app.report_dormant(&loaded);
    let names = if args.servers.is_empty() { app.chosen(&loaded) } else { &args.servers };
    let wanted = select(&loaded, names)?;
    let options = StartOptions { handshake_timeout: args.timeout, ..StartOptions::default() };
    warn_offline(app, &wanted);
    let started = app.start(&loaded.settings, &wanted, &options);
    let mut failed = started.failed;
    // All servers are waited for: the point is to see what each does.
    let mut reached = reach(app, started.servers, |_, _| false).await;
    let mut examined = Vec::new();
    for settings in wanted {
        let one =
            reached.iter().position(|one| one.server.name() == settings.name).map(|index| reached.swap_remove(index));
        let fault = failed.iter().position(|fault| fault.server.as_deref() == Some(&settings.name));
        examined.push(examine(app, settings, one, fault.map(|index| failed.swap_remove(index))));
    }
    for one in &mut examined {
        // Asked only where a version is the problem: starting an interpreter takes time.
        if let Some(cause) = &one.cause {
            one.installed = version::installed(cause, one.program.as_deref()).await;
        }
    }
    for one in &mut examined {
        one.find_obstacle(app, &loaded).await;
    }
    if args.fix {
        // After the diagnosis of all, so that a fix cannot influence another server.
        examined.iter_mut().for_each(|one| one.repair(&loaded));
    }
    let mut house = check_secrets(&loaded, args.fix);
    house.extend(examined.iter().filter_map(ServerDiagnosis::turns_note));
    // With servers named, the user does not want to hear of others.
    if args.servers.is_empty() {
        house.extend(dormant_servers(&loaded));
    }
    match app.output.form() {
        OutputFormat::Json => app.output.json(&json!({
            "healthy": examined.iter().all(ServerDiagnosis::is_usable),
            "servers": examined.iter().map(ServerDiagnosis::described).collect::<Vec<_>>(),
            "notes": house,
        }))?,
        OutputFormat::Text => print_report(app, &examined, &house)?,
    }
    Ok(exit(&examined))
}

/// Reports at once what the entry shows already, since the server is not going to answer soon.
fn warn_offline(app: &App, wanted: &[&ServerSettings]) {
    for server in wanted.iter().filter(|_| app.output.form() == OutputFormat::Text) {
        let ServerTarget::Command(target) = &server.target else { continue };
        let Some(runner) = diagnosis::offline_runner(&command(target)) else { continue };
        let cause = FailureCause::NoNetwork { runner };
        app.output.message(|paint| format!("{}: {}: {}", paint.warning("warning"), server.name, cause.sentence()));
    }
}

fn exit(examined: &[ServerDiagnosis]) -> CommandExit {
    // A repaired server counts as working.
    let broken = examined.iter().find(|one| !one.is_usable() && one.fixed.is_none());
    broken.map_or(CommandExit::Success, |one| one.fault.as_ref().map_or(CommandExit::Failed, CommandExit::of_fault))
}

fn examine(
    app: &App,
    settings: &ServerSettings,
    reached: Option<ReachedServer>,
    failed: Option<Fault>,
) -> ServerDiagnosis {
    let server = reached.as_ref().map(|one| one.server.clone());
    let took = reached.as_ref().map(|one| one.took);
    let catalog = reached.map(|one| one.catalog);
    let (tools, fault) = match catalog {
        Some(Ok(catalog)) => (Some(catalog.tools.items.len()), catalog.faults().next().cloned()),
        Some(Err(fault)) => (None, Some(fault)),
        None => (None, failed),
    };
    // The log of the server has more lines than the fault.
    let mut stderr = server.as_ref().map(|server| server.stderr(200)).unwrap_or_default();
    if let Some(process) = fault.as_ref().and_then(|fault| fault.process.clone()).filter(|_| stderr.is_empty()) {
        stderr = process.stderr;
    }
    let noise = server.as_ref().map(|server| server.noise()).unwrap_or_default();
    let environment = &app.context.environment;
    let is_set_here = |name: &str| environment.filled(name).is_some();
    let target = server.as_ref().map(|server| &server.config().target);
    let fault_seen = fault.as_ref();
    let evidence = ServerEvidence {
        server: &settings.name,
        target,
        is_set_here: &is_set_here,
        fault: fault_seen,
        stderr: &stderr,
        noise: &noise,
    };
    let cause = evidence.diagnose();
    let mask = |text: String| match &server {
        Some(server) => server.config().job.0.redact.mask(&text),
        None => text,
    };
    let words = cause.as_ref().map(|cause| (mask(cause.sentence()), mask(cause.advice())));
    let status = server.map(|server| server.status());
    let takes_turns = settings.instances == InstancePolicy::Shared && status.as_ref().is_some_and(|status| status.asks);
    let (target, program) = (settings.shown_target(), program(app, settings));
    ServerDiagnosis {
        name: settings.name.clone(),
        target,
        program,
        status,
        tools,
        took,
        stderr,
        noise,
        fault,
        cause,
        words,
        takes_turns,
        installed: None,
        fixed: None,
    }
}

/// Where the program is found, by its path or in `PATH`.
fn program(app: &App, settings: &ServerSettings) -> Option<PathBuf> {
    let ServerTarget::Command(command) = &settings.target else { return None };
    let program = command.program.expose();
    // A path is not searched in PATH.
    if program.contains('/') {
        return Some(PathBuf::from(program)).filter(|path| path.is_file());
    }
    let path = app.context.environment.get("PATH").unwrap_or_default();
    std::env::split_paths(path).map(|directory| directory.join(&program)).find(|path| path.is_file())
}

/// A secrets file that other users can read.
fn check_secrets(loaded: &LoadedConfig, may_fix: bool) -> Vec<String> {
    // Built-in and ad-hoc servers have no secrets file.
    let Some(open) = loaded.origin.path().and_then(fix::open_secrets) else { return Vec::new() };
    let fixed = may_fix.then(|| fix::close_secrets(&open)).flatten();
    vec![
        fixed
            .unwrap_or_else(|| format!("others can read {}: chmod 600 it (`tsugi doctor --fix` does)", open.display())),
    ]
}

/// Disabled servers that have everything they need.
fn dormant_servers(loaded: &LoadedConfig) -> impl Iterator<Item = String> {
    let off = loaded.settings.servers.iter().filter(|server| !server.enabled);
    off.map(|server| {
        format!("{} is switched off (its variables are set: take out `disabled: true` to use it)", server.name)
    })
}

impl ServerDiagnosis {
    fn is_usable(&self) -> bool {
        self.fault.is_none()
    }

    fn turns_note(&self) -> Option<String> {
        self.takes_turns.then(|| {
            format!(
                "{} asks questions, so calls that may be asked take turns; `instances: auto`, `instances: per-session` \
                 or a pool (`instances: {{pool: 4}}`) in its entry serves callers side by side",
                self.name
            )
        })
    }

    fn word(&self) -> &'static str {
        self.cause.as_ref().map_or("unknown", FailureCause::word)
    }

    fn repair(&mut self, loaded: &LoadedConfig) {
        let cause = self.cause.as_ref();
        self.fixed = cause.and_then(|cause| fix::repair(cause, &self.name, loaded.origin.path()));
    }

    /// Whether a sign-in that is missing could be made at all: the provider may lack something, or need a quirk.
    async fn find_obstacle(&mut self, app: &App, loaded: &LoadedConfig) {
        let is_waiting =
            matches!(self.cause, Some(FailureCause::SignInMissing { .. } | FailureCause::SignInEnded { .. }));
        if is_waiting && let Some(failure) = login::obstacle(app, loaded, &self.name).await {
            let cause =
                FailureCause::SignInRefused { message: failure.to_string(), hint: failure.hint().map(str::to_owned) };
            self.words = Some((cause.sentence(), cause.advice()));
            self.cause = Some(cause);
        }
    }

    fn era(&self) -> Option<(String, String)> {
        let version = self.status.as_ref()?.version?;
        Some((version.era().to_string(), version.to_string()))
    }

    fn described(&self) -> Value {
        let (era, revision) = self.era().unzip();
        json!({
            "name": self.name,
            "healthy": self.is_usable(),
            "cause": self.cause.as_ref().map(FailureCause::word),
            "message": self.words.as_ref().map(|(sentence, _)| sentence),
            "advice": self.words.as_ref().map(|(_, advice)| advice),
            "fixed": self.fixed,
            "target": self.target,
            "program": self.program,
            "installed": self.installed,
            "transport": self.status.as_ref().map(|status| status.transport),
            "era": era,
            "revision": revision,
            "tools": self.tools,
            "connectMs": self.took.map(|took| took.as_millis() as u64),
            "stderr": last(&self.stderr),
            "noise": self.noise,
            "error": self.fault,
        })
    }

    /// One line for a server that works; everything that helps for one that does not.
    fn text(&self, paint: TextPaint) -> String {
        let mark = match &self.cause {
            None => paint.good("ok"),
            Some(cause) if cause.is_blemish() => paint.warning("works, with a warning"),
            Some(_) => paint.error("broken"),
        };
        let mut lines = vec![format!("{}: {mark}  {}", paint.strong(&self.name), paint.faint(self.facts()))];
        if let (Some(cause), Some((sentence, advice))) = (&self.cause, &self.words) {
            lines.push(format!("  {} {}", printable(sentence), paint.faint(format!("[{}]", cause.word()))));
            lines.push(format!("  {} {}", paint.faint("runs:"), printable(&self.target)));
            lines.extend(self.program.iter().map(|path| format!("  {} {}", paint.faint("found:"), path.display())));
            lines.extend(self.installed.iter().map(|have| format!("  {} {}", paint.faint("here:"), printable(have))));
            lines.extend(last(&self.stderr).iter().map(|line| format!("  {} {}", paint.faint("|"), printable(line))));
            match &self.fixed {
                Some(fixed) => lines.push(format!("  {} {fixed}; run `tsugi doctor` again", paint.good("fixed:"))),
                None => lines.push(format!("  {}: {}", paint.hint("hint"), printable(advice))),
            }
        }
        lines.join("\n")
    }

    fn facts(&self) -> String {
        let mut facts = Vec::new();
        facts.extend(self.status.as_ref().map(|status| status.transport.to_owned()));
        facts.extend(self.era().map(|(era, revision)| format!("{era} ({revision})")));
        facts.extend(self.tools.map(|tools| if tools == 1 { "1 tool".to_owned() } else { format!("{tools} tools") }));
        facts.extend(self.took.map(|took| format!("{} ms", took.as_millis())));
        facts.join(", ")
    }
}

fn last(lines: &[String]) -> &[String] {
    &lines[lines.len().saturating_sub(WORDS)..]
}

fn print_report(app: &App, examined: &[ServerDiagnosis], house: &[String]) -> Result<(), CommandFailure> {
    for one in examined {
        app.output.painted(|paint| one.text(paint))?;
    }
    for note in house {
        app.output.message(|paint| format!("{}: {note}", paint.warning("note")));
    }
    let broken: Vec<&ServerDiagnosis> = examined.iter().filter(|one| !one.is_usable()).collect();
    app.output.message(|paint| match broken.as_slice() {
        [] => paint.good("every server works"),
        [one] => paint.error(format!("1 server does not work: {} ({})", one.name, one.word())),
        several if several.len() < FEW => {
            let names: Vec<String> = several.iter().map(|one| format!("{} ({})", one.name, one.word())).collect();
            paint.error(format!("{} servers do not work: {}", several.len(), names.join(", ")))
        }
        several => closing_table(several, paint),
    });
    Ok(())
}

/// A line for each broken server, since their reports have scrolled away.
fn closing_table(broken: &[&ServerDiagnosis], paint: TextPaint) -> String {
    let mut table = TextTable::new(["server", "cause", "message"]);
    for one in broken {
        let message = one.words.as_ref().map_or("", |(sentence, _)| sentence);
        table.row([one.name.clone(), one.word().to_owned(), shortened(message)]);
    }
    let head = paint.error(format!("{} servers do not work:", broken.len()));
    format!("\n{head}\n{}", table.text(paint))
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
