//! Where log lines go and which: to stderr, from warnings on, more with `-v`, or as `TSUGI_LOG` says.

use std::io::IsTerminal;
use std::time::Duration;

use tracing_subscriber::EnvFilter;

use crate::args::Common;
use crate::config::env::TSUGI_LOG;
use crate::willing::Willing;

/// Starts the log of this process.
pub(crate) fn start(common: &Common) {
    let filter = EnvFilter::try_from_env(TSUGI_LOG.name).unwrap_or_else(|_| EnvFilter::new(level(common)));
    let lines = tracing_subscriber::fmt()
        .with_env_filter(filter)
        // A call never waits for whoever reads the log.
        .with_writer(|| Willing::new(Duration::ZERO))
        .with_target(false)
        .with_ansi(std::io::stderr().is_terminal());
    match common.verbose {
        0 | 1 => lines.without_time().compact().init(),
        _ => lines.init(),
    }
}

/// The commands tell of failing servers themselves, with hints; the library's own warning would say it twice.
fn level(common: &Common) -> &'static str {
    match (common.quiet, common.verbose) {
        (true, _) => "error",
        (false, 0) => "warn,tsugi_client=error",
        (false, 1) => "info",
        (false, _) => "debug",
    }
}
