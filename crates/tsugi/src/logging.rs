//! The log on stderr: warnings by default, more with `-v`, or as `TSUGI_LOG` sets it.

use std::io::IsTerminal;
use std::time::Duration;

use clap::ValueEnum;
use tracing_subscriber::EnvFilter;

use crate::cli::CommandLine;
use crate::config::env::{TSUGI_LOG, TSUGI_LOG_FORMAT};
use crate::lossy_stderr::LossyStderr;

/// Text for people, or one JSON object per line for programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    Text,
    Json,
}

pub(crate) fn start(cli: &CommandLine) {
    let common = &cli.common;
    let filter = EnvFilter::try_from_env(TSUGI_LOG.name)
        .unwrap_or_else(|_| EnvFilter::new(level(common.quiet, common.verbose, cli.command.is_service())));
    let lines = tracing_subscriber::fmt()
        .with_env_filter(filter)
        // A full pipe must not block a call.
        .with_writer(|| LossyStderr::new(Duration::ZERO))
        .with_target(false)
        .with_ansi(std::io::stderr().is_terminal());
    match format(common.log_format, std::env::var(TSUGI_LOG_FORMAT.name).ok().as_deref()) {
        LogFormat::Json => lines.json().flatten_event(true).with_current_span(false).with_span_list(false).init(),
        // A service's log is read later, so its lines need times; a command's lines are read at once.
        LogFormat::Text if cli.command.is_service() || common.verbose > 1 => lines.init(),
        LogFormat::Text => lines.without_time().compact().init(),
    }
}

/// The flag, then the variable, then text.
fn format(flag: Option<LogFormat>, variable: Option<&str>) -> LogFormat {
    let of_variable = || variable.and_then(|word| LogFormat::from_str(word, true).ok());
    flag.or_else(of_variable).unwrap_or(LogFormat::Text)
}

/// Commands report failing servers themselves, with hints, so the library's warnings would repeat them. A service also
/// logs schema violations (`tsugi_checking`) and every start, stop and crash of a server (`tsugi_lifecycle`), which
/// nothing else reports, every refused token with the rule that decided (`tsugi_access`), and definitions that look
/// suspicious (`tsugi_lint`). `tsugi_debug` has lines only with `options.debug`.
fn level(is_quiet: bool, verbose: u8, is_service: bool) -> &'static str {
    match (is_quiet, verbose) {
        (true, _) => "error",
        (false, 0) if is_service => "warn,tsugi_client=error,tsugi_lifecycle=info,tsugi_access=info,tsugi_debug=info",
        (false, 0) => {
            "warn,tsugi_client=error,tsugi_checking=error,tsugi_lint=error,tsugi_lifecycle=off,tsugi_debug=info"
        }
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
