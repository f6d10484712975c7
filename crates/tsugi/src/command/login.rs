//! `tsugi login`: signs in to a remote server, in a browser here or elsewhere.

mod page_opener;
pub(super) mod remote;

use std::sync::Arc;

use serde_json::json;
use tsugi_auth::scope::ScopeSet;
use tsugi_oauth::credential::SignInStatus;
use tsugi_oauth::credential::options::SignInWay;
use tsugi_oauth::loopback::LoopbackBrowser;

use crate::app::App;
use crate::app::credential_registry::{self, CredentialTerms};
use crate::cli::NoServerFlags;
use crate::config::parse;
use crate::failure::CommandFailure;
use crate::output::{OutputFormat, printable};
use crate::report::{self, exit::CommandExit};
use page_opener::{CodeDisplay, LocalBrowser, PastedAddress};
use remote::LoginTarget;

const EXAMPLES: &str = "\
Opens the sign-in page of the server's provider in a browser and keeps what comes back, sealed, for
every tsugi of this user: `tsugi serve`, `tsugi call` and the others. A running gateway notices it.
--no-browser is for a machine without one, such as over SSH: it prints the address, and takes the
address that the browser ends up at, which cannot be shown there. --device asks for a code to type
in on another device, where the provider offers that.

Examples:
  tsugi login linear
  tsugi login linear --no-browser
  tsugi login github --scope repo
  tsugi login https://mcp.example.com/mcp        a server that is not configured yet";

/// Sign in to a remote server
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct LoginArgs {
    #[command(flatten)]
    _no_servers: NoServerFlags,
    /// The server's name, or its address
    #[arg(value_name = "SERVER")]
    server: String,
    /// Print the address instead of opening it, and take the one that the browser ends up at
    #[arg(long)]
    no_browser: bool,
    /// Show a code to type in on another device
    #[arg(long, conflicts_with = "no_browser")]
    device: bool,
    /// Ask for this scope too; repeatable
    #[arg(long, value_name = "SCOPE", value_parser = scope)]
    scope: Vec<ScopeList>,
    /// Print data only
    #[arg(long)]
    pub(crate) json: bool,
}

/// The scopes of one `--scope`, which may hold several as a challenge does.
type ScopeList = Vec<String>;

fn scope(text: &str) -> Result<ScopeList, String> {
    let parsed = text.split_ascii_whitespace().map(parse::scope);
    parsed.collect::<Result<_, _>>().map_err(|expected| format!("expected {}", expected.what))
}

pub(crate) async fn run(app: &App, args: &LoginArgs) -> Result<CommandExit, CommandFailure> {
    let loaded = app.configuration()?;
    let target = LoginTarget::find(app, &loaded, &args.server)?;
    target.expect_person()?;
    let environment = &app.context.environment;
    let way = match (args.device, args.no_browser) {
        (true, _) => SignInWay::Device(Arc::new(CodeDisplay::new(environment))),
        (_, true) => SignInWay::Browser(Arc::new(LoopbackBrowser::new(Arc::new(PastedAddress::new(environment))))),
        _ => SignInWay::Browser(Arc::new(LoopbackBrowser::new(Arc::new(LocalBrowser::new(environment))))),
    };
    let terms = CredentialTerms::of(&loaded.settings);
    let vault = remote::vault(app, &terms)?;
    let scopes: Vec<String> = args.scope.concat();
    let credential = credential_registry::credential(&target.name, &target.remote, &terms, vault, way, &scopes)?;
    let refusal = remote::ask(&target).await?;
    let status = credential.sign_in(refusal.headers.as_ref()).await;
    let status = status.map_err(|failure| remote::sign_in_failure(&target.name, &failure, refusal.is_open))?;
    show(app, &target, &status)?;
    if let Some(fault) = remote::try_out(app, &terms, &target).await {
        app.output.message(|paint| report::warning(&fault, paint));
    }
    Ok(CommandExit::Success)
}

fn show(app: &App, target: &LoginTarget, status: &SignInStatus) -> Result<(), CommandFailure> {
    let SignInStatus::SignedIn { issuer, until, can_refresh, scope } = status else {
        return Err(CommandFailure::usage("the sign-in did not last: its token has expired already"));
    };
    match app.output.form() {
        OutputFormat::Json => app.output.json(&json!({
            "server": target.name,
            "issuer": issuer,
            "until": until,
            "renewed": can_refresh,
            "scopes": scope.iter().collect::<Vec<_>>(),
        }))?,
        OutputFormat::Text => app.output.message(|paint| {
            let lasts = lasting(*until, *can_refresh);
            let told = format!("signed in to {}", target.name);
            let scope = if *scope == ScopeSet::default() { String::new() } else { format!(", scope `{scope}`") };
            format!("{} {}", paint.good(told), paint.faint(printable(&format!("({issuer}{scope}; {lasts})"))))
        }),
    }
    Ok(())
}

/// How long a sign-in holds, in words.
pub(super) fn lasting(until: Option<u64>, is_renewed: bool) -> String {
    match (until, is_renewed) {
        (_, true) => "renewed by itself".to_owned(),
        (Some(until), false) => format!("until {}", remote::moment(until)),
        (None, false) => "until the provider ends it".to_owned(),
    }
}
