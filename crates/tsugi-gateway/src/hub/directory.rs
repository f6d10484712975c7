//! The hub's tools as REST asks for them: by server and name, or by name alone when that suffices.

use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tsugi_client::{Server, not_found};
use tsugi_policy::question::NameKind;
use tsugi_protocol::answer::{Caller, Fault};
use tsugi_protocol::mcp::tool::ToolDescription;

use super::Hub;
use super::access::denied;
use super::single_server::SingleServer;
use super::snapshot::{HubSnapshot, NamesByServer, PublicEntry};
use crate::backend::{FoundTool, ToolDirectory, ToolInfo};
use crate::guard::caller_access::CallerAccess;

impl ToolDirectory for Hub {
    fn tools<'a>(&'a self, caller: &'a Caller) -> BoxFuture<'a, Vec<ToolInfo>> {
        async move {
            let view = self.settled_snapshot().await;
            let access = self.access(caller);
            let is_allowed = |entry: &&PublicEntry| access.lists(entry.server.name(), NameKind::Tool, &entry.own);
            view.tools.iter().map(|(_, entry)| entry).filter(is_allowed).filter_map(|entry| self.info(entry)).collect()
        }
        .boxed()
    }

    fn find<'a>(
        &'a self,
        caller: &'a Caller,
        server: Option<&'a str>,
        tool: &'a str,
    ) -> BoxFuture<'a, Result<FoundTool, Fault>> {
        async move {
            let view = self.settled_snapshot().await;
            let access = self.access(caller);
            let found = match server {
                Some(name) => self.tool_of(&view, name, tool),
                None => self.only_tool(&view, tool, &access),
            };
            let (server, own) = match found {
                Ok((server, own)) if access.allows(server.name(), &own) => (server, own),
                Ok(_) => return Err(denied("tool", tool)),
                Err(fault) => return Err(access.missing("tool", tool, || fault)),
            };
            Ok(FoundTool { answer: Arc::new(SingleServer::new(self.clone(), server)), name: own })
        }
        .boxed()
    }
}

impl Hub {
    fn info(&self, entry: &PublicEntry) -> Option<ToolInfo> {
        let tool = ToolDescription::from_raw(&entry.shown)?;
        let config = entry.server.config();
        let of_tool = config.tools.get(&entry.own).and_then(|settings| settings.timeout);
        let timeout = of_tool.or(config.timeout).unwrap_or(self.manager().options().timeout);
        Some(ToolInfo {
            server: entry.server.name().to_owned(),
            name: entry.local().to_owned(),
            own: entry.own.clone(),
            description: tool.description(),
            input_schema: tool.input_schema(),
            output_schema: tool.output_schema(),
            annotations: tool.annotations(),
            timeout: timeout.as_millis() as u64,
        })
    }

    /// A tool of a named server, by the name it is shown under, else by the server's own. A server whose
    /// tools is believed to have it.
    fn tool_of(&self, view: &HubSnapshot, name: &str, tool: &str) -> Result<(Server, String), Fault> {
        let server = self.manager().server(name).ok_or_else(|| not_found::server(name))?;
        if !view.servers_told.contains(name) {
            return Ok((server, tool.to_owned()));
        }
        let public = |names: &NamesByServer| names.get(name).and_then(|names| names.get(tool)).cloned();
        let public = public(&view.local_tools).or_else(|| public(&view.own_tools));
        match public.and_then(|public| view.tools.get(&public)) {
            Some(entry) => Ok((server, entry.own.clone())),
            None => Err(not_found::tool(tool).on_server(name)),
        }
    }

    /// The only tool with this name, be it the one it is shown under or else the server's own, that the caller may use.
    fn only_tool(&self, view: &HubSnapshot, tool: &str, access: &CallerAccess) -> Result<(Server, String), Fault> {
        if let Some(entry) = view.tools.get(tool) {
            return Ok((entry.server.clone(), entry.own.clone()));
        }
        let is_allowed = |entry: &&PublicEntry| access.lists(entry.server.name(), NameKind::Tool, &entry.own);
        let called = |name: fn(&PublicEntry) -> &str| -> Vec<&PublicEntry> {
            let entries = view.tools.iter().map(|(_, entry)| entry);
            entries.filter(|entry| name(entry) == tool).filter(is_allowed).collect()
        };
        let shown = called(PublicEntry::local);
        let found = if shown.is_empty() { called(|entry| &entry.own) } else { shown };
        match found.as_slice() {
            [] => Err(not_found::tool(tool)),
            [only] => Ok((only.server.clone(), only.own.clone())),
            several => {
                let names: Vec<&str> = several.iter().map(|entry| entry.server.name()).collect();
                Err(not_found::ambiguous_tool(tool, &names))
            }
        }
    }
}
