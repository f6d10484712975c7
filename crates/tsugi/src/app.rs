//! Puts the parts together: configuration, servers, streams and signals, for one run of one command.

#[cfg(feature = "acme")]
pub(crate) mod acme;
mod ad_hoc;
pub(crate) mod audit;
pub(crate) mod credential_registry;
pub(crate) mod gateway;
mod interrupt;
mod login;
pub(crate) mod oauth;
mod offer;
mod pins;
pub(crate) mod running_gateway;
mod select;
pub(crate) mod server;
pub(crate) mod vault_watcher;

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use serde_json::json;
use tsugi_client::config::{LimitPolicy, PinStore, own_profile};
use tsugi_client::seal::StateSealer;
use tsugi_client::{Manager, ManagerOptions, Server, ServerConfig};
use tsugi_pins::store::PinWriting;
use tsugi_process::SecretMask;
use tsugi_protocol::answer::Fault;
use tsugi_protocol::json::JsonObject;
use tsugi_protocol::mcp::{ClientCapabilities, ClientProfile};

use crate::builtin::pm::PmBoards;
use crate::cli::{CommandLine, GlobalFlags};
use crate::command;
use crate::config::document::{ConfigDocument, DocumentFormat};
use crate::config::env::{Environment, XDG_STATE_HOME};
use crate::config::layer::{self, ConfigOrigin, ConfigSelection, LaunchContext, LoadedConfig};
use crate::config::problem::ConfigProblems;
use crate::config::resolve;
use crate::config::secret::Secret;
use crate::config::settings::{CheckedSettings, ServerSettings};
use crate::failure::CommandFailure;
use crate::key_file::KeyFile;
use crate::output::CommandOutput;
use crate::report::{self, exit::CommandExit};
use crate::{interactive_call, terminal};
use credential_registry::{CredentialRegistry, CredentialTerms};
use interrupt::InterruptSignals;
use server::ServerParts;

pub(crate) use offer::{is_offered, is_shown_as, offers, own_name, shown, shown_name};
pub(crate) use select::{named, select};
pub(crate) use server::http_target;

/// How long stopping a server that did not become ready may take.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// What holds where nothing is configured.
const BUILTINS: &str = "servers: [{name: demo, builtin: demo}]\n";
/// The same for a gateway, which may keep something.
const BUILTINS_OF_GATEWAY: &str = "servers: [{name: demo, builtin: demo}, {name: pm, builtin: pm}]\n";

/// One run of one command.
pub(crate) struct App {
    pub(crate) output: CommandOutput,
    pub(crate) common: GlobalFlags,
    pub(crate) context: LaunchContext,
    /// Made when servers are started, and stopped at the end in any case.
    manager: OnceLock<Manager>,
    /// Whether it runs until someone ends it.
    is_service: bool,
    /// The project servers among the built-in ones.
    pub(crate) boards: Arc<PmBoards>,
    /// The pins of the configuration, once it is read; nothing for one that is not a file.
    pub(crate) pins: OnceLock<Option<Arc<PinStore>>>,
    pin_writing: PinWriting,
    /// The sign-ins to remote servers.
    pub(crate) credentials: Arc<CredentialRegistry>,
}

/// What a command line adds to how servers are started.
#[derive(Debug, Default)]
pub(crate) struct StartOptions {
    /// How long every server may take to be ready.
    pub(crate) handshake_timeout: Option<Duration>,
    /// The directories for servers that ask for roots.
    pub(crate) roots: Vec<PathBuf>,
    /// Whether the servers are only to be looked up, not started.
    pub(crate) is_held_back: bool,
}

/// The servers that a command works with.
#[derive(Default)]
pub(crate) struct CommandServers {
    pub(crate) servers: Vec<Server>,
    /// Those that cannot even be tried.
    pub(crate) failed: Vec<Fault>,
}

/// Runs the command until it ends or someone interrupts it. No process of ours is left when this returns.
pub(crate) async fn run(cli: CommandLine) -> CommandExit {
    let surroundings = match LaunchContext::of_process() {
        Ok(surroundings) => surroundings,
        Err(error) => return cannot_start(&error),
    };
    let output = CommandOutput::of_process(cli.command.form(), &surroundings.environment);
    let is_service = cli.command.is_service();
    let pin_writing = cli.command.pin_writing();
    let (manager, boards) = (OnceLock::new(), Arc::default());
    let credentials = Arc::new(CredentialRegistry::new(state_directory(&surroundings.environment)));
    let app = App {
        output,
        common: cli.common,
        context: surroundings,
        manager,
        is_service,
        boards,
        pins: OnceLock::new(),
        pin_writing,
        credentials,
    };
    let mut interrupts = match InterruptSignals::listen() {
        Ok(interrupts) => interrupts,
        Err(error) => return cannot_start(&error),
    };
    let outcome = tokio::select! {
        outcome = command::run(&app, cli.command) => outcome,
        // A service listens for signals itself, since it finishes its calls first.
        () = interrupts.next(), if !is_service => Err(CommandFailure::Interrupted),
    };
    // The command may have been interrupted at a prompt, which changes the settings of the terminal.
    terminal::restore();
    // Reported before the servers stop, which may take a while.
    let exit = outcome.unwrap_or_else(|failure| failure.report(&app.output));
    app.stop(&mut interrupts).await;
    exit
}

/// The system does not let us begin.
pub(crate) fn cannot_start(error: &std::io::Error) -> CommandExit {
    let output = CommandOutput::of_process(crate::output::OutputFormat::Text, &Default::default());
    output.message(|paint| format!("{}: tsugi cannot start: {error}", paint.error("error")));
    CommandExit::Failed
}

impl App {
    /// The configuration that holds, with what the command line adds to it. Its warnings are told.
    pub(crate) fn configuration(&self) -> Result<LoadedConfig, CommandFailure> {
        let mut loaded = layer::load(&self.wish(), &self.context)?;
        self.warn(&loaded);
        if loaded.origin.path().is_none() {
            self.credentials.name_by_address();
        }
        ad_hoc::apply(&mut loaded, &self.common, &self.context.environment)?;
        if loaded.origin == ConfigOrigin::Nothing {
            self.use_builtins(&mut loaded.settings)?;
        }
        self.open_pins(&loaded)?;
        Ok(loaded)
    }

    /// The same without its warnings and without pins, for a command that only looks names up.
    pub(crate) fn quiet_configuration(&self) -> Result<LoadedConfig, CommandFailure> {
        let mut loaded = layer::load(&self.wish(), &self.context)?;
        if loaded.origin == ConfigOrigin::Nothing {
            self.use_builtins(&mut loaded.settings)?;
        }
        Ok(loaded)
    }

    /// What the command line says about the configuration.
    pub(crate) fn wish(&self) -> ConfigSelection {
        ConfigSelection {
            config: self.common.config.clone(),
            command: self.common.command.clone(),
            url: self.common.url.clone(),
        }
    }

    fn warn(&self, loaded: &LoadedConfig) {
        if !self.common.quiet && !loaded.warnings.is_empty() {
            self.output.message(|paint| report::warnings(&loaded.warnings, paint));
        }
    }

    /// Says which servers are switched off and what they lack: for the commands that look how things stand.
    pub(crate) fn report_dormant(&self, loaded: &LoadedConfig) {
        if !self.common.quiet && !loaded.dormant.is_empty() {
            self.output.message(|paint| report::warnings(&loaded.dormant, paint));
        }
    }

    /// Without any configuration there is still something to try.
    fn use_builtins(&self, settings: &mut CheckedSettings) -> Result<(), CommandFailure> {
        // `pm` keeps its database in the state directory, so it is offered only where there is one.
        let (text, names) = match self.state_directory().filter(|_| self.is_service) {
            Some(_) => (BUILTINS_OF_GATEWAY, "the built-in servers `demo` and `pm`"),
            None => (BUILTINS, "the built-in server `demo`"),
        };
        let document = ConfigDocument::parse("(built in)".as_ref(), text.to_owned(), DocumentFormat::Yaml)
            .map_err(ConfigProblems)?;
        *settings = resolve::resolve(&document, &self.context.environment)?.settings;
        if !self.common.quiet {
            self.output.message(|paint| paint.faint(format!("no configuration found; using {names}")));
        }
        Ok(())
    }

    /// Starts these servers, in parallel, and does not wait for them.
    pub(crate) fn start(
        &self,
        settings: &CheckedSettings,
        wanted: &[&ServerSettings],
        options: &StartOptions,
    ) -> CommandServers {
        let profile = profile(!options.roots.is_empty());
        let manager = self.manager.get_or_init(|| Manager::new(self.options(settings, profile, options)));
        if options.is_held_back {
            manager.hold_back();
        }
        let mut started = CommandServers::default();
        for server in wanted {
            let mut config = self.server_config(settings, server);
            if let (Ok(config), Some(_)) = (&mut config, options.handshake_timeout) {
                // A limit on the command line is for every server, however long its entry allows.
                config.handshake_timeout = None;
            }
            match config.and_then(|config| manager.register(config)) {
                Ok(server) => started.servers.push(server),
                Err(fault) => started.failed.push(fault),
            }
        }
        started
    }

    /// The manager of this run, without servers on first use.
    pub(crate) fn manager(&self, settings: &CheckedSettings, profile: Arc<ClientProfile>) -> &Manager {
        self.manager.get_or_init(|| Manager::new(self.options(settings, profile, &StartOptions::default())))
    }

    /// The library's settings for a server.
    pub(crate) fn server_config(
        &self,
        settings: &CheckedSettings,
        server: &ServerSettings,
    ) -> Result<ServerConfig, Fault> {
        let redact = SecretMask::new(settings.secrets.iter().map(Secret::expose).map(str::to_owned));
        let parts =
            ServerParts { boards: &self.boards, credentials: &self.credentials, terms: &CredentialTerms::of(settings) };
        server::config(server, redact, &parts).map_err(|fault| fault.on_server(&server.name))
    }

    /// Where the keys of callers are kept; nowhere without a state directory.
    pub(crate) fn key_file(&self) -> Option<KeyFile> {
        self.state_directory().map(|directory| KeyFile::in_directory(&directory))
    }

    fn options(&self, settings: &CheckedSettings, profile: Arc<ClientProfile>, start: &StartOptions) -> ManagerOptions {
        ManagerOptions {
            max_parallel: settings.options.max_parallel,
            limit: Some(LimitPolicy { in_flight: settings.options.max_in_flight, ..LimitPolicy::default() }),
            max_connections: settings.options.max_connections,
            timeout: settings.options.timeout,
            input_patience: settings.options.input_patience,
            // `maxTimeout` is told to each server, so that a reload which takes it out of `options` takes it from them.
            state_dir: self.state_directory(),
            profile,
            roots: (!start.roots.is_empty()).then(|| interactive_call::roots(&start.roots)),
            sealer: sealer(settings.gateway.state_key.as_ref()),
            handshake_timeout: start.handshake_timeout.unwrap_or(ManagerOptions::default().handshake_timeout),
            debug: settings.options.debug,
            pins: self.pins.get().cloned().flatten(),
            ..ManagerOptions::default()
        }
    }

    /// Where what was found out is kept.
    pub(crate) fn state_directory(&self) -> Option<PathBuf> {
        state_directory(&self.context.environment)
    }

    /// The names of `--server`. A server given by `--command` or `--url` took its name from there already.
    pub(crate) fn chosen(&self, loaded: &LoadedConfig) -> &[String] {
        if loaded.origin == ConfigOrigin::AdHoc { &[] } else { &self.common.servers }
    }

    /// How long to wait for a server to be ready: a little longer than it may take, so that what is wrong with it is
    /// heard, which is when its process has been stopped.
    pub(crate) fn patience(&self, server: &ServerConfig) -> Duration {
        let own = server.handshake_timeout;
        let limit = own.or_else(|| self.manager.get().map(|manager| manager.options().handshake_timeout));
        limit.unwrap_or_else(|| ManagerOptions::default().handshake_timeout) + LAST_WORDS
    }

    /// Whether someone is there to be asked, and wants to be.
    pub(crate) fn is_interactive(&self) -> bool {
        !self.common.no_input && self.output.is_interactive()
    }

    /// Stops every server. A second interrupt ends the wait, and the guardians do the rest.
    async fn stop(&self, interrupts: &mut InterruptSignals) {
        let Some(manager) = self.manager.get() else { return };
        tokio::select! {
            () = manager.stop() => {}
            () = interrupts.next() => {}
        }
    }
}

fn state_directory(environment: &Environment) -> Option<PathBuf> {
    let base = match environment.filled(XDG_STATE_HOME.name) {
        Some(base) => PathBuf::from(base),
        None => Path::new(environment.filled("HOME")?).join(".local/state"),
    };
    Some(base.join("tsugi"))
}

/// What seals the state of calls that wait for input: the key of the configuration, or one that ends with us.
fn sealer(key: Option<&Secret>) -> Arc<StateSealer> {
    let Some(key) = key else { return Arc::new(StateSealer::random()) };
    let mut context = ring::digest::Context::new(&ring::digest::SHA256);
    // So that the same text used elsewhere is not the same key.
    context.update(b"tsugi requestState\0");
    context.update(key.expose().as_bytes());
    let digest = context.finish();
    Arc::new(StateSealer::with_key(digest.as_ref().try_into().expect("SHA-256 has 32 bytes")))
}

/// Who we are, and what servers may ask for: the user always, roots if there are any, a model never.
pub(crate) fn profile(has_roots: bool) -> Arc<ClientProfile> {
    let mut capabilities = json!({"elicitation": {"form": {}, "url": {}}});
    if has_roots {
        capabilities["roots"] = json!({});
    }
    Arc::new(own_profile(ClientCapabilities::from_object(JsonObject::from(capabilities))))
}

/// Who a gateway is to its servers: what they may ask for is up to each caller, so all of it.
pub(crate) fn profile_of_gateway() -> Arc<ClientProfile> {
    Arc::new(own_profile(ClientCapabilities::all()))
}
