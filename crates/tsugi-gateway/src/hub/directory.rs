//! The hub's tools as REST asks for them: by server and name, or by name alone when that suffices.

use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tsugi_client::Server;
use tsugi_protocol::answer::{Caller, Fault, FaultCode};
use tsugi_protocol::mcp::tool::Tool;

use super::Hub;
use super::merge::{Entry, View};
use super::one::OneServer;
use crate::backend::{Directory, FoundTool, ToolInfo};
use crate::guard::permit::Permit;

impl Directory for Hub {
    fn tools<'a>(&'a self, caller: &'a Caller) -> BoxFuture<'a, Vec<ToolInfo>> {
        async move {
            let view = self.settled_view().await;
            let permit = self.permit(caller);
            let is_allowed =
                |entry: &&Entry| permit.as_ref().is_none_or(|permit| permit.allows(entry.server.name(), &entry.own));
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
            let view = self.settled_view().await;
            let (server, own) = match server {
                Some(name) => self.tool_of(name, tool)?,
                None => self.only_tool(&view, tool, self.permit(caller).as_deref())?,
            };
            if self.permit(caller).is_some_and(|permit| !permit.allows(server.name(), &own)) {
                let message = format!("this caller may not use {own:?}");
                return Err(Fault::new(FaultCode::PermissionDenied, message).on_server(server.name()).on_tool(&own));
            }
            Ok(FoundTool { answer: Arc::new(OneServer::new(self.clone(), server)), name: own })
        }
        .boxed()
    }
}

impl Hub {
    fn info(&self, entry: &Entry) -> Option<ToolInfo> {
        let tool = Tool::from_raw(&entry.shown)?;
        let config = entry.server.config();
        let of_tool = config.tools.get(&entry.own).and_then(|settings| settings.timeout);
        let timeout = of_tool.or(config.timeout).unwrap_or(self.manager().options().timeout);
        let shown = self.config();
        let shape = shown.shapes.get(entry.server.name());
        Some(ToolInfo {
            server: entry.server.name().to_owned(),
            name: shape.map_or(entry.own.as_str(), |shape| shape.name(&entry.own)).to_owned(),
            description: tool.description(),
            input_schema: tool.input_schema(),
            output_schema: tool.output_schema(),
            annotations: tool.annotations(),
            timeout: timeout.as_millis() as u64,
        })
    }

    /// A tool of a named server. One that has not told its tools is believed to have it.
    fn tool_of(&self, name: &str, tool: &str) -> Result<(Server, String), Fault> {
        let unknown = || Fault::new(FaultCode::ServerNotFound, format!("there is no server {name:?}"));
        let server = self.manager().server(name).ok_or_else(unknown)?;
        let Some(catalog) = server.catalog() else { return Ok((server, tool.to_owned())) };
        let config = self.config();
        let shape = config.shapes.get(name);
        let shown = |own: &str| shape.map_or(own, |shape| shape.name(own)).to_owned();
        let is_it = |known: &&Tool| {
            shape.is_none_or(|shape| shape.allows(known.name()))
                && (shown(known.name()) == tool || known.name() == tool)
        };
        match catalog.tools.items.iter().find(is_it) {
            Some(found) => Ok((server, found.name().to_owned())),
            None => Err(no_tool(tool).on_server(name)),
        }
    }

    /// The only tool with this name, be it the server's own or the one it is shown under, that the caller may use.
    fn only_tool(&self, view: &View, tool: &str, permit: Option<&Permit>) -> Result<(Server, String), Fault> {
        if let Some(entry) = view.tools.get(tool) {
            return Ok((entry.server.clone(), entry.own.clone()));
        }
        let config = self.config();
        let is_called_so = |entry: &&Entry| {
            let shape = config.shapes.get(entry.server.name());
            entry.own == tool || shape.is_some_and(|shape| shape.name(&entry.own) == tool)
        };
        let is_allowed = |entry: &&Entry| permit.is_none_or(|permit| permit.allows(entry.server.name(), &entry.own));
        let entries = view.tools.iter().map(|(_, entry)| entry);
        let found: Vec<&Entry> = entries.filter(is_called_so).filter(is_allowed).collect();
        match found.as_slice() {
            [] => Err(no_tool(tool)),
            [only] => Ok((only.server.clone(), only.own.clone())),
            several => {
                let names: Vec<&str> = several.iter().map(|entry| entry.server.name()).collect();
                let message = format!("several servers have a tool named {tool:?}: {}", names.join(", "));
                Err(Fault::new(FaultCode::InvalidParams, message).on_tool(tool).with_hint("name the server"))
            }
        }
    }
}

fn no_tool(tool: &str) -> Fault {
    Fault::new(FaultCode::ToolNotFound, format!("there is no tool named {tool:?}")).on_tool(tool)
}
