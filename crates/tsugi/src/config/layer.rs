//! Decides which configuration holds: flags, a named file, `MCP_URLS`, a file that is found, or none.

mod ad_hoc;

use std::path::{Path, PathBuf};

use super::env::{self, Environment};
use super::file;
use super::problem::{ConfigProblem, ConfigProblems};
use super::resolve::{self, ResolvedConfig};
use super::settings::CheckedSettings;

/// What the command line says about the configuration.
#[derive(Debug, Clone, Default)]
pub(crate) struct ConfigSelection {
    /// `--config FILE`
    pub(crate) config: Option<PathBuf>,
    /// `--command "…"`: a server given on the command line, written as in a shell.
    pub(crate) command: Option<String>,
    /// `--url …`: a server given on the command line.
    pub(crate) url: Option<String>,
}

/// Where we are.
#[derive(Debug, Clone)]
pub(crate) struct LaunchContext {
    pub(crate) environment: Environment,
    /// The current directory.
    pub(crate) directory: PathBuf,
}

/// Where settings came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ConfigOrigin {
    /// `--command` or `--url`.
    AdHoc,
    /// A file that someone named.
    Named(PathBuf),
    /// `MCP_URLS`.
    Variable,
    /// A file found in the current directory. Any user who can write there may have written it, so what
    /// it would run deserves a second look.
    WorkingDirectory(PathBuf),
    /// The user's own file.
    User(PathBuf),
    /// Nothing was written anywhere.
    Nothing,
}

/// Settings and where they came from.
#[derive(Debug)]
pub(crate) struct LoadedConfig {
    pub(crate) settings: CheckedSettings,
    pub(crate) warnings: Vec<ConfigProblem>,
    /// What keeps servers that are switched off from being switched on.
    pub(crate) dormant: Vec<ConfigProblem>,
    pub(crate) origin: ConfigOrigin,
}

impl LaunchContext {
    /// Those of this process.
    pub(crate) fn of_process() -> std::io::Result<Self> {
        Ok(LaunchContext { environment: Environment::of_process(), directory: std::env::current_dir()? })
    }

    /// The directory of the user's own configuration.
    pub(crate) fn user_directory(&self) -> Option<PathBuf> {
        let base = match self.environment.filled(env::XDG_CONFIG_HOME.name) {
            Some(base) => PathBuf::from(base),
            None => Path::new(self.environment.filled("HOME")?).join(".config"),
        };
        Some(base.join("tsugi"))
    }
}

impl ConfigOrigin {
    /// What a file of this origin may use. A stranger's file in the current directory must not run programs for a person
    /// who only looks at it, as with `tsugi check`.
    pub(crate) fn environment(&self, environment: &Environment) -> Environment {
        match self {
            ConfigOrigin::Named(_) | ConfigOrigin::User(_) => environment.clone().running_programs(),
            _ => environment.clone(),
        }
    }

    /// The file, where it is one.
    pub(crate) fn path(&self) -> Option<&Path> {
        match self {
            ConfigOrigin::Named(path) | ConfigOrigin::WorkingDirectory(path) | ConfigOrigin::User(path) => Some(path),
            ConfigOrigin::AdHoc | ConfigOrigin::Variable | ConfigOrigin::Nothing => None,
        }
    }
}

/// Which configuration holds, without reading it.
pub(crate) fn choose(wish: &ConfigSelection, surroundings: &LaunchContext) -> ConfigOrigin {
    if wish.command.is_some() || wish.url.is_some() {
        return ConfigOrigin::AdHoc;
    }
    let environment = &surroundings.environment;
    let variable = || environment.filled(env::TSUGI_CONFIG.name).map(PathBuf::from);
    if let Some(path) = wish.config.clone().or_else(variable) {
        return ConfigOrigin::Named(surroundings.directory.join(path));
    }
    if environment.filled(env::MCP_URLS.name).is_some() {
        return ConfigOrigin::Variable;
    }
    if let Some(path) = file::find_in(&surroundings.directory) {
        return ConfigOrigin::WorkingDirectory(path);
    }
    surroundings
        .user_directory()
        .and_then(|directory| file::find_in(&directory))
        .map_or(ConfigOrigin::Nothing, ConfigOrigin::User)
}

/// The settings that hold, or everything that is wrong with them.
pub(crate) fn load(wish: &ConfigSelection, surroundings: &LaunchContext) -> Result<LoadedConfig, ConfigProblems> {
    let origin = choose(wish, surroundings);
    let environment = &surroundings.environment;
    let resolved = match &origin {
        ConfigOrigin::Named(path) | ConfigOrigin::WorkingDirectory(path) | ConfigOrigin::User(path) => {
            read(path, &origin.environment(environment))
        }
        ConfigOrigin::AdHoc => resolve::resolve(&ad_hoc::from_flags(wish)?, environment),
        ConfigOrigin::Variable => {
            let value = environment.filled(env::MCP_URLS.name).unwrap_or_default();
            let quiet = environment.filled(env::MCP_QUIET.name).unwrap_or_default();
            resolve::resolve(&ad_hoc::from_urls(value, quiet), environment)
        }
        ConfigOrigin::Nothing => resolve::resolve_nothing(environment),
    };
    let ResolvedConfig { settings, warnings, dormant } = resolved?;
    Ok(LoadedConfig { settings, warnings, dormant, origin })
}

/// Reads and resolves one file.
pub(crate) fn read(path: &Path, environment: &Environment) -> Result<ResolvedConfig, ConfigProblems> {
    resolve::resolve(&file::read(path)?, environment)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::settings::{RemoteTransport, ServerTarget};

    fn surroundings(directory: &Path, pairs: &[(&str, &str)]) -> LaunchContext {
        LaunchContext { environment: Environment::from_pairs(pairs.iter().copied()), directory: directory.to_owned() }
    }

    fn check(wish: ConfigSelection, files: &[&str], pairs: &[(&str, &str)]) -> String {
        let directory = tempfile::tempdir().unwrap();
        for file in files {
            let path = directory.path().join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "servers: []\n").unwrap();
        }
        let home = directory.path().join("home");
        let mut pairs = pairs.to_vec();
        pairs.push(("HOME", home.to_str().unwrap()));
        let origin = choose(&wish, &surroundings(directory.path(), &pairs));
        format!("{origin:?}").replace(directory.path().to_str().unwrap(), "")
    }

    #[test]
    fn what_is_said_more_expressly_wins() {
        let spot = || ConfigSelection {
            url: Some("http://x".into()),
            config: Some("a.yaml".into()),
            ..ConfigSelection::default()
        };
        let named = || ConfigSelection { config: Some("a.yaml".into()), ..ConfigSelection::default() };
        let urls = ("MCP_URLS", "http://x");
        let user = "home/.config/tsugi/tsugi.yaml";
        assert_eq!(check(spot(), &["tsugi.yaml"], &[urls]), "AdHoc");
        assert_eq!(check(named(), &["tsugi.yaml"], &[urls, ("TSUGI_CONFIG", "b.yaml")]), "Named(\"/a.yaml\")");
        assert_eq!(
            check(ConfigSelection::default(), &["tsugi.yaml"], &[urls, ("TSUGI_CONFIG", "b.yaml")]),
            "Named(\"/b.yaml\")"
        );
        assert_eq!(check(ConfigSelection::default(), &["tsugi.yaml", user], &[urls]), "Variable");
        assert_eq!(check(ConfigSelection::default(), &["tsugi.yaml", user], &[]), "WorkingDirectory(\"/tsugi.yaml\")");
        assert_eq!(check(ConfigSelection::default(), &[user], &[]), "User(\"/home/.config/tsugi/tsugi.yaml\")");
        assert_eq!(check(ConfigSelection::default(), &[], &[("MCP_URLS", "")]), "Nothing");
    }

    fn load_pairs(wish: ConfigSelection, pairs: &[(&str, &str)]) -> Result<LoadedConfig, ConfigProblems> {
        load(&wish, &surroundings(Path::new("/nowhere"), pairs))
    }

    #[test]
    fn the_urls_of_seed_003_are_a_configuration_of_their_own() {
        let urls = "http://body-cli:8000/sse, http://body-weather:8001/sse,http://body-cli:8002/mcp,";
        let loaded =
            load_pairs(ConfigSelection::default(), &[("MCP_URLS", urls), ("DEFAULT_TIMEOUT", "5000")]).unwrap();
        let shown: Vec<String> = loaded
            .settings
            .servers
            .iter()
            .map(|server| match &server.target {
                ServerTarget::Remote(remote) => format!("{} {} {:?}", server.name, remote.url, remote.transport),
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(
            shown,
            [
                "body-cli-8000 http://body-cli:8000/sse Sse",
                "body-weather http://body-weather:8001/sse Sse",
                "body-cli-8002 http://body-cli:8002/mcp Auto",
            ]
        );
        assert_eq!(loaded.settings.servers[0].timeout, std::time::Duration::from_secs(5));
        assert!(
            matches!(&loaded.settings.servers[0].target, ServerTarget::Remote(remote) if remote.transport == RemoteTransport::Sse)
        );
    }

    #[test]
    fn the_quiet_tools_of_seed_003_can_be_named_beside_the_urls() {
        let pairs = [("MCP_URLS", "http://a/sse,http://b/sse"), ("MCP_QUIET", "get_comments, get_time,")];
        let servers = load_pairs(ConfigSelection::default(), &pairs).unwrap().settings.servers;
        for server in &servers {
            let quiet: Vec<&str> =
                server.tools.iter().filter(|(_, tool)| tool.quiet).map(|(name, _)| &**name).collect();
            assert_eq!(quiet, ["get_comments", "get_time"], "{}", server.name);
        }
        assert_eq!(servers.len(), 2);
        let alone = load_pairs(ConfigSelection::default(), &pairs[..1]).unwrap().settings.servers;
        assert!(alone.iter().all(|server| server.tools.is_empty()));
        let bad = load_pairs(ConfigSelection::default(), &[pairs[0], ("MCP_QUIET", "no name")]).unwrap_err();
        assert!(bad.to_string().contains("`quietTools` cannot be `no name`"), "{bad}");
    }

    #[test]
    fn a_bad_address_in_the_variable_is_pointed_at() {
        let problems = load_pairs(ConfigSelection::default(), &[("MCP_URLS", "http://good/, ftp://bad/")]).unwrap_err();
        assert!(problems.to_string().contains("MCP_URLS:1:15"), "{problems}");
    }

    #[test]
    fn a_command_on_the_spot_is_split_as_a_shell_would() {
        let wish = ConfigSelection {
            command: Some("npx -y 'my server' \"a b\" c\\ d $HOME".into()),
            ..ConfigSelection::default()
        };
        let loaded = load_pairs(wish, &[]).unwrap();
        let ServerTarget::Command(command) = &loaded.settings.servers[0].target else { panic!() };
        let args: Vec<String> = command.args.iter().map(|arg| arg.expose()).collect();
        assert_eq!((loaded.settings.servers[0].name.as_str(), command.program.expose().as_str()), ("npx", "npx"));
        assert_eq!(args, ["-y", "my server", "a b", "c d", "$HOME"]);
    }

    #[test]
    fn a_command_on_the_spot_that_makes_no_sense_is_refused() {
        for command in ["", "   ", "npx 'open"] {
            assert!(
                load_pairs(ConfigSelection { command: Some(command.into()), ..ConfigSelection::default() }, &[])
                    .is_err(),
                "{command}"
            );
        }
        let both =
            ConfigSelection { command: Some("x".into()), url: Some("http://x".into()), ..ConfigSelection::default() };
        assert!(load_pairs(both, &[]).is_err());
    }

    #[test]
    fn nothing_at_all_gives_settings_without_servers() {
        let loaded = load_pairs(ConfigSelection::default(), &[]).unwrap();
        assert_eq!((loaded.settings.servers.len(), loaded.origin), (0, ConfigOrigin::Nothing));
        assert_eq!(loaded.settings.gateway.listen.to_string(), "127.0.0.1:7600");
    }

    #[test]
    fn a_bad_default_timeout_is_named() {
        let problems = load_pairs(ConfigSelection::default(), &[("DEFAULT_TIMEOUT", "soon")]).unwrap_err().to_string();
        assert!(problems.contains("DEFAULT_TIMEOUT") && problems.contains("soon"), "{problems}");
    }
}
