//! `tsugi logs`: the standard error of a server of a running gateway, so far and as it comes.

use std::time::Duration;

use serde_json::Value;

use crate::app::App;
use crate::failure::CommandFailure;
use crate::gateway_client::{GatewayClient, GatewayFlags};
use crate::output::OutputFormat;
use crate::report::exit::CommandExit;

/// The polling interval of `--follow`.
const INTERVAL: Duration = Duration::from_millis(300);
/// How many lines each poll fetches. A burst longer than this loses lines.
const WINDOW: usize = 2000;

const EXAMPLES: &str = "\
The output of a crashed process is kept when the server restarts; a line separates the two.

Examples:
  tsugi logs files
  tsugi logs files -f
  tsugi logs files --lines 500";

/// Show the standard error of a server of a running gateway
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct LogsArgs {
    /// The server
    #[arg(value_name = "SERVER")]
    name: String,
    /// Show at most this many lines
    #[arg(long, short = 'n', default_value_t = 100)]
    lines: usize,
    /// Keep printing new lines until interrupted
    #[arg(long, short)]
    follow: bool,
    #[command(flatten)]
    which: GatewayFlags,
    /// Print data only
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) async fn run(app: &App, args: &LogsArgs) -> Result<CommandExit, CommandFailure> {
    let remote = GatewayClient::of(app, &args.which)?;
    if args.follow {
        return follow(app, args, &remote).await;
    }
    let mut answer = ask(&remote, args, args.lines).await?;
    remote.identify(app, &mut answer);
    match app.output.form() {
        OutputFormat::Json => app.output.json(&answer)?,
        OutputFormat::Text => {
            let lines = lines(&answer);
            lines.iter().try_for_each(|line| app.output.data(line))?;
            if lines.is_empty() {
                app.output.message(|_| format!("{} has written nothing to its standard error", args.name));
            }
        }
    }
    Ok(CommandExit::Success)
}

async fn ask(remote: &GatewayClient, args: &LogsArgs, lines: usize) -> Result<Value, CommandFailure> {
    remote.get(&["servers", &args.name, "logs"], &format!("lines={lines}")).await
}

fn lines(answer: &Value) -> Vec<String> {
    answer["lines"].as_array().into_iter().flatten().filter_map(|line| line.as_str().map(str::to_owned)).collect()
}

async fn follow(app: &App, args: &LogsArgs, remote: &GatewayClient) -> Result<CommandExit, CommandFailure> {
    let mut first = ask(remote, args, WINDOW.max(args.lines)).await?;
    remote.identify(app, &mut first);
    let mut seen = lines(&first);
    print(app, &seen[seen.len().saturating_sub(args.lines)..])?;
    loop {
        tokio::time::sleep(INTERVAL).await;
        let now = lines(&ask(remote, args, WINDOW).await?);
        print(app, fresh(&seen, &now))?;
        seen = now;
    }
}

fn print(app: &App, lines: &[String]) -> Result<(), CommandFailure> {
    for line in lines {
        match app.output.form() {
            OutputFormat::Json => app.output.json(&serde_json::json!({"line": line}))?,
            OutputFormat::Text => app.output.data(line)?,
        }
    }
    Ok(())
}

/// The lines after those seen before; all of them if none of those is left.
fn fresh<'a>(seen: &[String], now: &'a [String]) -> &'a [String] {
    let longest = seen.len().min(now.len());
    let common = (1..=longest).rev().find(|count| seen[seen.len() - count..] == now[..*count]);
    &now[common.unwrap_or(0)..]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_new_is_shown() {
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        for (seen, now, new) in [
            ("", "a b", "a b"),
            ("a b", "a b", ""),
            ("a b", "a b c", "c"),
            ("a b c", "b c d e", "d e"),
            ("a a", "a a a", "a"),
            ("a b c", "x y", "x y"),
            ("a b", "", ""),
        ] {
            assert_eq!(fresh(&words(seen), &words(now)), words(new), "{seen} | {now}");
        }
    }
}
