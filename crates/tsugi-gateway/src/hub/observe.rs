//! The hub's servers as the dashboard sees them.

use std::sync::Arc;
use std::time::UNIX_EPOCH;

use serde_json::Value;
use tokio::sync::{broadcast, watch};
use tsugi_client::catalog::Catalog;
use tsugi_client::connection::state::ConnectionState;
use tsugi_client::{Server, ServerStatus};
use tsugi_protocol::answer::FaultDiagnosis;
use tsugi_protocol::mcp::prompt::PromptDescription;
use tsugi_protocol::mcp::resource::ResourceDescription;
use tsugi_protocol::mcp::tool::ToolDescription;

use super::Hub;
use super::control::masked;
use crate::dashboard::observe::{NamedItem, ObservedProcess, ServerDetail, ServerObserver, ServerState, ServerTrouble};

impl ServerObserver for Hub {
    fn states(&self) -> Vec<ServerState> {
        self.manager().servers().iter().map(|server| self.state(server)).collect()
    }

    fn detail(&self, name: &str) -> Option<ServerDetail> {
        Some(self.detail_of(&self.manager().server(name)?))
    }

    fn stderr(&self, name: &str, lines: usize) -> Vec<String> {
        self.manager().server(name).map(|server| server.log(lines)).unwrap_or_default()
    }

    fn newest_stderr(&self, name: &str, lines: usize) -> Vec<String> {
        self.manager().server(name).map(|server| server.log_of_newest(lines)).unwrap_or_default()
    }

    fn follow_stderr(&self, name: &str) -> Option<broadcast::Receiver<Arc<str>>> {
        self.manager().server(name)?.follow_stderr()
    }

    fn mask(&self, name: &str, value: Value) -> Value {
        match self.manager().server(name) {
            Some(server) => masked(value, &|text| server.config().job.0.redact.mask(text)),
            // A server that is gone took its secrets with it, so what it was given is not shown any more.
            None => Value::Null,
        }
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.0.feed.renewed.subscribe()
    }
}

impl Hub {
    fn state(&self, server: &Server) -> ServerState {
        let (status, catalog) = (server.status(), server.catalog());
        let count = |of: fn(&Catalog) -> usize| catalog.as_deref().map_or(0, of);
        let since = status.since.duration_since(UNIX_EPOCH).map_or(0, |time| time.as_millis() as u64);
        let confinement = confinement(server);
        let mask = |text: String| server.config().job.0.redact.mask(&text);
        let mut troubles = troubles(&status, catalog.as_deref());
        // What holds in part is told beside the word; it holds so for every server of this machine.
        if let Some(text) = server.sandbox_report().and_then(|report| report.shortcomings()) {
            let text = format!("its sandbox does not hold as asked: {text}");
            troubles.push(ServerTrouble::new("sandbox", text));
        }
        let clashes = &self.snapshot().clashes;
        // Clashes are found when names are merged, so that no server knows of its own.
        let own = clashes.iter().filter(|clash| clash.server == server.name());
        troubles.extend(own.map(|clash| ServerTrouble::new("names", &clash.text)));
        for trouble in &mut troubles {
            trouble.text = mask(std::mem::take(&mut trouble.text));
        }
        let tools = catalog.as_deref().map_or(0, |catalog| self.shown_tools(server, catalog).count());
        ServerState {
            name: server.name().into(),
            state: status.state_word(),
            reason: reason(&status).map(mask),
            diagnosis: diagnosis(&status).cloned(),
            era: status.version.map(|version| version.era().as_str()),
            revision: status.version.map(|version| version.as_str()),
            transport: status.transport,
            started_at: (status.state == ConnectionState::Connected).then_some(since),
            restarts: status.restarts,
            pid: status.pid,
            tools,
            resources: count(|catalog| catalog.resources.items.len() + catalog.templates.items.len()),
            prompts: count(|catalog| catalog.prompts.items.len()),
            sandbox: confinement.map(|(word, _)| word),
            troubles,
        }
    }

    /// The tools that the configuration lets out.
    fn shown_tools<'a>(
        &self,
        server: &Server,
        catalog: &'a Catalog,
    ) -> impl Iterator<Item = &'a ToolDescription> + use<'a> {
        let shape = self.config().presentations.get(server.name()).cloned();
        let is_shown = move |tool: &&ToolDescription| shape.as_ref().is_none_or(|shape| shape.allows(tool.name()));
        catalog.tools.items.iter().filter(is_shown)
    }

    fn detail_of(&self, server: &Server) -> ServerDetail {
        let (status, catalog) = (server.status(), server.catalog());
        let catalog = catalog.as_deref();
        let identity = status.identity.clone().or_else(|| catalog.map(|catalog| catalog.identity.clone()));
        let prompt =
            |prompt: &PromptDescription| NamedItem { name: prompt.name().to_owned(), shown: prompt.object().raw() };
        let tool = |tool: &ToolDescription| NamedItem { name: tool.name().to_owned(), shown: tool.object().raw() };
        let named = |of: fn(&Catalog) -> &Vec<ResourceDescription>| {
            let resource = |resource: &ResourceDescription| NamedItem {
                name: resource.uri().to_owned(),
                shown: resource.object().raw(),
            };
            catalog.map(|catalog| of(catalog).iter().map(resource).collect()).unwrap_or_default()
        };
        ServerDetail {
            state: self.state(server),
            title: identity.as_ref().and_then(|identity| identity.display_name()),
            instructions: identity.as_ref().and_then(|identity| identity.instructions.clone()),
            capabilities: identity.as_ref().map(|identity| identity.capabilities.raw()),
            server_info: identity.as_ref().and_then(|identity| identity.info.clone()),
            processes: processes(server),
            sandbox_report: server.sandbox_report().and_then(|report| serde_json::to_value(report).ok()),
            tools: catalog.map(|catalog| self.shown_tools(server, catalog).map(tool).collect()).unwrap_or_default(),
            resources: named(|catalog| &catalog.resources.items),
            templates: named(|catalog| &catalog.templates.items),
            prompts: catalog.map(|catalog| catalog.prompts.items.iter().map(prompt).collect()).unwrap_or_default(),
        }
    }
}

/// How well a server's process is confined, in a word, and what of it does not hold or only in part.
pub fn confinement(server: &Server) -> Option<(&'static str, Option<String>)> {
    let report = server.sandbox_report()?;
    let words = report.parts().map(|(_, part)| part.word());
    let is_any = |word: &str| words.contains(&word);
    let word = match () {
        () if is_any("not enforced") => "not enforced",
        () if is_any("partly enforced") => "partly enforced",
        () if is_any("enforced") => "enforced",
        () => "off",
    };
    Some((word, report.gaps()))
}

/// Why a server is not as it should be.
fn reason(status: &ServerStatus) -> Option<String> {
    // A server that is connected again may still have its last fault, which is not a reason any more.
    let fault = || status.fault.as_ref().filter(|_| status.state != ConnectionState::Connected);
    let told = |fault: &tsugi_protocol::answer::Fault| {
        let ended = fault.process.as_ref().map(|process| format!(" ({})", process.status)).unwrap_or_default();
        let hint = fault.hint.as_ref().map(|hint| format!("; {hint}")).unwrap_or_default();
        match &fault.diagnosis {
            // How a process ended explains nothing once the cause is known.
            Some(diagnosis) if diagnosis.cause != "crashes" => format!("{}{hint}", diagnosis.sentence()),
            _ => format!("{}{ended}{hint}", fault.message),
        }
    };
    // An order explains more than the fault before it.
    if status.is_held {
        return Some("it was stopped by order; calls do not start it".to_owned());
    }
    // A named cause explains more than that the server is left alone because of it.
    let named = fault().filter(|fault| fault.diagnosis.is_some()).map(told);
    named.or_else(|| status.left_alone.clone()).or_else(|| fault().map(told))
}

/// The cause, while it is the reason why the server is not connected.
fn diagnosis(status: &ServerStatus) -> Option<&FaultDiagnosis> {
    let is_reason = !status.is_held && status.state != ConnectionState::Connected;
    // Masked when it was made, with the same secrets.
    status.fault.as_ref().filter(|_| is_reason)?.diagnosis.as_deref()
}

fn troubles(status: &ServerStatus, catalog: Option<&Catalog>) -> Vec<ServerTrouble> {
    let mut troubles = Vec::new();
    let why = reason(status).unwrap_or_else(|| "no reason is known".to_owned());
    let why = |kind| ServerTrouble { diagnosis: diagnosis(status).cloned(), ..ServerTrouble::new(kind, why) };
    match status.state {
        _ if status.needs_sign_in() => troubles.push(why("sign-in")),
        ConnectionState::Failed => troubles.push(why("failed")),
        ConnectionState::Reconnecting => troubles.push(why("reconnecting")),
        _ if status.left_alone.is_some() => troubles.push(why("left-alone")),
        // While it is tried again it is as broken as before, and must not drop out of the list for a moment.
        _ if diagnosis(status).is_some() => troubles.push(why("reconnecting")),
        _ => {}
    }
    let lists = catalog.map(|catalog| {
        [
            ("tools", &catalog.tools.fault),
            ("resources", &catalog.resources.fault),
            ("templates", &catalog.templates.fault),
            ("prompts", &catalog.prompts.fault),
        ]
    });
    // A list that failed shows its old entries, which no one would notice otherwise.
    for (list, fault) in lists.into_iter().flatten() {
        if let Some(fault) = fault {
            let text = format!("its {list} could not be listed: {}", fault.message);
            troubles.push(ServerTrouble::new("list", text));
        }
    }
    troubles
}

/// The living processes. Command lines are masked, since secrets are given there too.
fn processes(server: &Server) -> Vec<ObservedProcess> {
    let redact = &server.config().job.0.redact;
    let processes = server.processes().into_iter().map(|process| ObservedProcess {
        pid: process.pid,
        parent: process.parent,
        command: redact.mask(&process.command),
        rss_bytes: process.resident_bytes,
        cpu_ms: process.cpu.as_millis() as u64,
    });
    processes.collect()
}
