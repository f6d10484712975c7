//! Where log lines go, which, and in which form: to stderr, from warnings on, more with `-v`, or as `TSUGI_LOG` says.

use std::io::IsTerminal;
use std::time::Duration;

use clap::ValueEnum;
use tracing_subscriber::EnvFilter;

use crate::cli::CommandLine;
use crate::config::env::{TSUGI_LOG, TSUGI_LOG_FORMAT};
use crate::lossy_stderr::LossyStderr;

/// What a log line looks like: words for people, or one JSON object for programs.
// The variants are not documented singly: clap would then print the help of every command in its long form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    Text,
    Json,
}

/// Starts the log of this process.
pub(crate) fn start(cli: &CommandLine) {
    let common = &cli.common;
    let filter = EnvFilter::try_from_env(TSUGI_LOG.name)
        .unwrap_or_else(|_| EnvFilter::new(level(common.quiet, common.verbose, cli.command.is_service())));
    let lines = tracing_subscriber::fmt()
        .with_env_filter(filter)
        // A call never waits for whoever reads the log.
        .with_writer(|| LossyStderr::new(Duration::ZERO))
        .with_target(false)
        .with_ansi(std::io::stderr().is_terminal());
    match format(common.log_format, std::env::var(TSUGI_LOG_FORMAT.name).ok().as_deref()) {
        LogFormat::Json => lines.json().flatten_event(true).with_current_span(false).with_span_list(false).init(),
        // Whoever reads the log of a service reads it later; a command's lines are about now.
        LogFormat::Text if cli.command.is_service() || common.verbose > 1 => lines.init(),
        LogFormat::Text => lines.without_time().compact().init(),
    }
}

/// The flag, then the variable, then lines for people.
fn format(flag: Option<LogFormat>, variable: Option<&str>) -> LogFormat {
    let of_variable = || variable.and_then(|word| LogFormat::from_str(word, true).ok());
    flag.or_else(of_variable).unwrap_or(LogFormat::Text)
}

/// Commands report failing servers themselves, with hints; the library's own lines would repeat them. A gateway shows
/// what happens to its servers (`tsugi_lifecycle`) and values that do not fit a schema (`tsugi_checking`), since
/// nothing else reports them.
fn level(is_quiet: bool, verbose: u8, is_service: bool) -> &'static str {
    match (is_quiet, verbose) {
        (true, _) => "error",
        (false, 0) if is_service => "warn,tsugi_client=error,tsugi_lifecycle=info",
        (false, 0) => "warn,tsugi_client=error,tsugi_checking=error,tsugi_lifecycle=off",
        (false, 1) => "info",
        (false, _) => "debug",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gateway_shows_what_does_not_fit_a_schema_and_a_command_does_not() {
        let silences = |is_service| level(false, 0, is_service).contains("tsugi_checking=error");
        assert!(!silences(true) && silences(false));
    }

    #[test]
    fn a_gateway_shows_what_happens_to_its_servers_and_a_command_does_not() {
        assert!(level(false, 0, true).contains("tsugi_lifecycle=info"));
        assert!(level(false, 0, false).contains("tsugi_lifecycle=off"));
    }

    #[test]
    fn the_flag_wins_over_the_variable_and_nonsense_means_text() {
        assert_eq!(format(Some(LogFormat::Text), Some("json")), LogFormat::Text);
        assert_eq!((format(None, Some("JSON")), format(None, Some("xml"))), (LogFormat::Json, LogFormat::Text));
        assert_eq!(format(None, None), LogFormat::Text);
    }
}
