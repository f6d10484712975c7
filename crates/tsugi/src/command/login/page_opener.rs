//! Ways to show a person the sign-in page: a browser here, an address to copy, a code for another device.

use std::ffi::OsStr;
use std::io::{self, BufRead};

use futures_util::future::BoxFuture;
use tsugi_oauth::browser::DeviceDisplay;
use tsugi_oauth::device::DeviceCode;
use tsugi_oauth::loopback::PageOpener;
use url::Url;

use crate::config::env::Environment;
use crate::output::{CommandOutput, OutputFormat};

/// What opens an address where `BROWSER` does not say it.
#[cfg(target_os = "macos")]
const OPENERS: &[&str] = &["open"];
#[cfg(not(target_os = "macos"))]
const OPENERS: &[&str] = &["xdg-open", "wslview"];

/// Prints messages from a task that outlives no command.
fn talk(environment: &Environment) -> CommandOutput {
    CommandOutput::of_process(OutputFormat::Text, environment)
}

/// The browser of this machine.
pub(super) struct LocalBrowser {
    output: CommandOutput,
    programs: Vec<String>,
}

impl LocalBrowser {
    pub(super) fn new(environment: &Environment) -> Self {
        // A list separated by colons, of which the first that starts is used.
        let own = environment.filled("BROWSER").map(|list| list.split(':').map(str::to_owned).collect());
        let programs = own.unwrap_or_else(|| OPENERS.iter().map(|program| (*program).to_owned()).collect());
        Self { output: talk(environment), programs }
    }
}

impl PageOpener for LocalBrowser {
    fn open(&self, page: &Url) {
        let is_started = is_page(page) && self.programs.iter().any(|program| start(program, page));
        self.output.message(|paint| match is_started {
            true => {
                format!("sign in with the browser that opens; if none does, visit\n{}", paint.strong(page.as_str()))
            }
            false => format!(
                "{}: no browser could be started; visit\n{}\n{}: on another machine, use --no-browser",
                paint.warning("warning"),
                paint.strong(page.as_str()),
                paint.hint("hint")
            ),
        });
    }
}

/// Only pages: a provider must not choose another kind of address, nor something that a program takes for an option.
fn is_page(page: &Url) -> bool {
    matches!(page.scheme(), "http" | "https")
}

/// One argument, no shell: nothing in the address means anything but itself.
fn start(program: &str, page: &Url) -> bool {
    tsugi_process::start_detached(OsStr::new(program), &[OsStr::new(page.as_str())]).is_ok()
}

/// A browser elsewhere, whose last address the person copies back.
pub(super) struct PastedAddress {
    output: CommandOutput,
}

impl PastedAddress {
    pub(super) fn new(environment: &Environment) -> Self {
        Self { output: talk(environment) }
    }
}

impl PageOpener for PastedAddress {
    fn open(&self, page: &Url) {
        self.output.message(|paint| {
            format!(
                "visit this address in any browser:\n{}\nat the end the browser cannot show a page of 127.0.0.1; paste \
                 that address here:",
                paint.strong(page.as_str())
            )
        });
    }

    fn pasted(&self) -> BoxFuture<'static, Option<String>> {
        Box::pin(async { tokio::task::spawn_blocking(read_address).await.ok().flatten() })
    }
}

/// The first line that is an address. Nothing if the input ends before one.
fn read_address() -> Option<String> {
    let lines = io::stdin().lock().lines().map_while(Result::ok);
    lines.map(|line| line.trim().to_owned()).find(|line| Url::parse(line).is_ok_and(|url| url.query().is_some()))
}

/// Shows a code and where to type it in.
pub(super) struct CodeDisplay {
    output: CommandOutput,
}

impl CodeDisplay {
    pub(super) fn new(environment: &Environment) -> Self {
        Self { output: talk(environment) }
    }
}

impl DeviceDisplay for CodeDisplay {
    fn show(&self, code: &DeviceCode) {
        self.output.message(|paint| {
            let page = paint.strong(code.verification.as_str());
            let text = format!("visit {page} on any device and enter {}", paint.strong(&code.user_code));
            match &code.complete {
                Some(complete) => format!("{text}\nor visit {complete}"),
                None => text,
            }
        });
    }
}
