//! Waits for servers in parallel: one that fails or hangs does not affect the others.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::{Instant, timeout_at};
use tsugi_client::Server;
use tsugi_client::catalog::Catalog;
use tsugi_client::connection::state::ConnectionState;
use tsugi_protocol::answer::{CallStage, Fault, FaultCode, FaultReason, SentState};

use super::ReadyServer;
use crate::app::{App, StartOptions, select};
use crate::config::layer::LoadedConfig;
use crate::failure::CommandFailure;
use crate::output::progress::ProgressLine;
use crate::report::{self, exit::CommandExit};

/// How long servers that may also have the thing can take once one is known to have it. One that hangs must not hold
/// up the others.
const GRACE: Duration = Duration::from_secs(5);

pub(crate) struct ReachedServer {
    pub(crate) server: Server,
    pub(crate) catalog: Result<Arc<Catalog>, Fault>,
    pub(crate) took: Duration,
}

type ConnectResult = Option<(Result<Arc<Catalog>, Fault>, Duration)>;

/// Waits for these servers and returns them in their order.
///
/// Once `is_enough` holds for one, only those servers are waited for, and for [`GRACE`] at most, that could have the
/// thing too. One whose remembered catalog lacks it could not, and is returned with that catalog.
pub(crate) async fn reach(
    app: &App,
    servers: Vec<Server>,
    is_enough: impl Fn(&str, &Catalog) -> bool,
) -> Vec<ReachedServer> {
    let progress = app.output.progress("connecting", (servers.len() > 1).then_some(servers.len() as u64));
    let patience = |server: &Server| app.patience(server.config());
    let started = Instant::now();
    // The slowest server limits the whole wait.
    let mut deadline = started + servers.iter().map(patience).max().unwrap_or_default();
    let ready = |(index, server): (usize, &Server)| {
        let (server, patience) = (server.clone(), patience(server));
        async move { (index, first_try(&server, patience).await, started.elapsed()) }
    };
    let mut waiting: FuturesUnordered<_> = servers.iter().enumerate().map(ready).collect();
    let mut arrivals: Vec<ConnectResult> = servers.iter().map(|_| None).collect();
    show_waiting(&progress, &servers, &arrivals);
    let mut is_found = false;
    while let Ok(Some((index, catalog, took))) = timeout_at(deadline, waiting.next()).await {
        if catalog.as_ref().is_ok_and(|catalog| is_enough(servers[index].name(), catalog)) {
            deadline = deadline.min(Instant::now() + GRACE);
            is_found = true;
        }
        arrivals[index] = Some((catalog, took));
        if is_found && pending(&servers, &arrivals).all(|server| lacking(server, &is_enough).is_some()) {
            break;
        }
        show_waiting(&progress, &servers, &arrivals);
    }
    let finish = |(server, arrival): (Server, ConnectResult)| {
        let (catalog, took) = arrival.unwrap_or_else(|| {
            // Without a match the remembered catalog says nothing: the server may have changed.
            let known = if is_found { lacking(&server, &is_enough) } else { None };
            (known.ok_or_else(|| late_fault(&server)), started.elapsed())
        });
        let catalog = catalog.map_err(|fault| with_doctor_hint(app, with_silence_hint(&server, fault)));
        ReachedServer { server, catalog, took }
    };
    servers.into_iter().zip(arrivals).map(finish).collect()
}

/// The catalog, or the fault of the first attempt. The server keeps trying, but a person is waiting.
async fn first_try(server: &Server, patience: Duration) -> Result<Arc<Catalog>, Fault> {
    tokio::select! {
        // A server that is ready wins over a fault of an earlier attempt.
        biased;
        ready = server.ready(patience) => ready,
        fault = broken(server) => Err(fault),
    }
}

async fn broken(server: &Server) -> Fault {
    let mut changes = server.changes();
    loop {
        let status = server.status();
        if let Some(fault) = status.fault.filter(|_| status.state == ConnectionState::Reconnecting) {
            return fault;
        }
        // A closed channel means that the server is gone; `ready` reports that.
        if let Err(RecvError::Closed) = changes.recv().await {
            return std::future::pending().await;
        }
    }
}

/// The servers that have neither connected nor failed.
fn pending<'a>(servers: &'a [Server], arrivals: &'a [ConnectResult]) -> impl Iterator<Item = &'a Server> {
    servers.iter().zip(arrivals).filter(|(_, arrival)| arrival.is_none()).map(|(server, _)| server)
}

/// What the server had the last time, if the thing was not in it.
fn lacking(server: &Server, is_enough: &impl Fn(&str, &Catalog) -> bool) -> Option<Arc<Catalog>> {
    server.catalog().filter(|catalog| !is_enough(server.name(), catalog))
}

/// Shows which servers are still being waited for.
fn show_waiting(progress: &ProgressLine, servers: &[Server], arrivals: &[ConnectResult]) {
    let names: Vec<&str> = pending(servers, arrivals).map(Server::name).collect();
    if names.is_empty() {
        return;
    }
    let done = (servers.len() - names.len()) as f64;
    progress.report(done, None, Some(&format!("waiting for {}", names.join(", "))));
}

/// The fault of a server that was not waited for.
fn late_fault(server: &Server) -> Fault {
    let message = format!("still {} and not waited for any longer", server.status().state);
    let fault = Fault::new(FaultCode::Timeout, message).at(CallStage::Connect).sent(SentState::NotSent);
    fault.on_server(server.name()).with_hint("name the server to wait for it alone")
}

/// Unwraps "not running" to its cause, and adds a hint for a server that runs but is silent.
fn with_silence_hint(server: &Server, fault: Fault) -> Fault {
    let fault = match fault.cause {
        Some(cause) if fault.code == FaultCode::ServerNotRunning => *cause,
        _ => fault,
    };
    let is_first = fault.hint.is_none() && fault.process.is_none() && fault.cause.is_none();
    // Initializing means that the process runs and the handshake was sent.
    let is_silent = is_first && server.status().state == ConnectionState::Initializing;
    if is_silent { fault.with_hint("it runs but does not answer: does it speak MCP?") } else { fault }
}

/// Refers to the doctor for a missing program: it shows where it was searched and how to get it. An ad-hoc server has
/// no name that the doctor could be given.
fn with_doctor_hint(app: &App, mut fault: Fault) -> Fault {
    let reason = fault.root_reason();
    if let (Some(server), Some(hint)) = (&fault.server, &mut fault.hint)
        && reason == Some(FaultReason::ProgramNotFound)
        && app.common.command.is_none()
    {
        hint.push_str(&format!("; `tsugi doctor {server}` says more"));
    }
    fault
}

/// Starts the selected servers for commands that list, and waits as [`reach`] does. Failures are reported, and the exit
/// code shows whether there were any.
pub(crate) async fn reach_all(
    app: &App,
    loaded: &LoadedConfig,
    is_enough: impl Fn(&Catalog) -> bool,
) -> Result<(Vec<ReadyServer>, CommandExit), CommandFailure> {
    let wanted = select(loaded, app.chosen(loaded))?;
    let started = app.start(&loaded.settings, &wanted, &StartOptions::default());
    let (mut ready, mut faults) = (Vec::new(), started.failed);
    for one in reach(app, started.servers, |_, catalog| is_enough(catalog)).await {
        match one.catalog {
            Ok(catalog) => {
                // A server can be connected while one of its lists failed.
                faults.extend(catalog.faults().map(|fault| fault.clone().on_server(one.server.name())));
                ready.push((one.server, catalog));
            }
            Err(fault) => faults.push(fault),
        }
    }
    let exit = faults.first().map_or(CommandExit::Success, CommandExit::of_fault);
    if ready.is_empty() {
        faults.iter().for_each(|fault| app.output.message(|paint| report::fault(fault, paint)));
        return Err(CommandFailure::Reported(exit));
    }
    report::warn_all(&app.output, &faults);
    Ok((ready, exit))
}
