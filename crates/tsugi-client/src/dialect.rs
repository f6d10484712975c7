//! The tools of all servers in the format of one model provider, and the model's calls translated back.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use serde_json::Value;
use tsugi_protocol::answer::{Fault, FaultCode};
use tsugi_protocol::json::RawJson;
use tsugi_schema::dialect::{self, ArgumentPlan, NamedTool, SchemaDialect};
use tsugi_schema::loss::SchemaLoss;
use tsugi_schema::tool_name::{NameMap, ToolNaming, ToolTarget};

use crate::catalog::Catalog;
use crate::config::ValidationMode;
use crate::layer::validate::check_arguments;
use crate::manager::{Manager, ToolExecution};
use crate::result::ToolResult;
use crate::server::Server;

/// The tools of all servers in one dialect, as they were at one moment.
#[derive(Debug)]
pub struct Spoken {
    /// What the provider's SDK takes as it is: for Gemini one `ToolDescription` with all functions, for OpenAI and Anthropic `tools`.
    pub declarations: Value,
    tools: HashMap<String, SpokenTool>,
}

/// One tool in a dialect.
#[derive(Debug)]
pub struct SpokenTool {
    /// Which server has it and what it is called there.
    pub target: ToolTarget,
    /// What the declaration does not say.
    pub losses: Vec<SchemaLoss>,
    plan: ArgumentPlan,
}

impl Spoken {
    /// The tool that a model knows under this name.
    pub fn tool(&self, name: &str) -> Option<&SpokenTool> {
        self.tools.get(name)
    }

    /// Every tool with the name the model knows.
    pub fn tools(&self) -> impl Iterator<Item = (&str, &SpokenTool)> {
        self.tools.iter().map(|(name, tool)| (name.as_str(), tool))
    }

    /// The call that a model meant: its tool's own name, and the arguments as that tool takes them.
    pub fn read_call(&self, name: &str, arguments: Value) -> Result<ToolExecution, Fault> {
        let Some(tool) = self.tool(name) else {
            let message = format!("no tool was offered under the name {name:?}");
            return Err(Fault::new(FaultCode::ToolNotFound, message).on_tool(name));
        };
        let arguments = tool.plan.restore(parsed(name, arguments)?);
        Ok(ToolExecution {
            server: Some(tool.target.server.clone()),
            tool: tool.target.tool.clone(),
            arguments: Some(RawJson::from(arguments)),
        })
    }
}

/// OpenAI gives arguments as JSON text, the others as a value; Gemini gives none at all for a tool without any.
fn parsed(name: &str, arguments: Value) -> Result<Value, Fault> {
    if arguments.is_null() {
        return Ok(Value::Object(Default::default()));
    }
    let Value::String(text) = &arguments else { return Ok(arguments) };
    if text.trim().is_empty() {
        return Ok(Value::Object(Default::default()));
    }
    serde_json::from_str(text).map_err(|error| {
        let message = format!("the arguments of {name:?} are not JSON: {error}");
        Fault::new(FaultCode::InvalidParams, message).on_tool(name)
    })
}

/// What was said last in each dialect, kept while no catalog changes.
#[derive(Default)]
pub(crate) struct DialectCache(Mutex<HashMap<SchemaDialect, CachedDialect>>);

/// What was said, and of which catalogs.
type CachedDialect = (Arc<Catalogs>, Arc<Spoken>);

/// The catalogs behind a conversion. They are compared by identity, since servers that follow each other under
/// one name count alike.
struct Catalogs(Vec<Named>);

/// A server's name and its catalog.
type Named = (String, Weak<Catalog>);

impl PartialEq for Catalogs {
    fn eq(&self, other: &Self) -> bool {
        let same = |(one, other): (&Named, &Named)| one.0 == other.0 && Weak::ptr_eq(&one.1, &other.1);
        self.0.len() == other.0.len() && self.0.iter().zip(&other.0).all(same)
    }
}

impl Manager {
    /// Every tool that is known at the moment, in the words of a provider. Names are `server__tool`, made safe.
    pub fn tools_for(&self, dialect: SchemaDialect) -> Arc<Spoken> {
        let servers = self.servers();
        // Compared by identity: a catalog that changed is a new one.
        let catalogs = Arc::new(catalogs(&servers));
        let said = self.dialect_cache().0.lock().get(&dialect).cloned();
        if let Some((_, spoken)) = said.filter(|(known, _)| *known == catalogs) {
            return spoken;
        }
        let spoken = Arc::new(speak(&servers, dialect, dialect::DialectOptions::default()));
        // Two callers may convert at the same time; both results are equal.
        self.dialect_cache().0.lock().insert(dialect, (catalogs, spoken.clone()));
        spoken
    }

    /// As [`Manager::tools_for`], with choices; calls are then read with [`Spoken::read_call`].
    pub fn tools_for_with(&self, dialect: SchemaDialect, options: dialect::DialectOptions) -> Spoken {
        speak(&self.servers(), dialect, options)
    }

    /// Calls what a model meant. The arguments are turned back and checked against the tool's own schema,
    /// so that errors speak to the model in terms of the tool.
    pub async fn call_from(&self, dialect: SchemaDialect, name: &str, arguments: Value) -> ToolResult {
        let started = std::time::Instant::now();
        let failed = |fault| ToolResult::failure(name, fault, started.elapsed());
        let execution = match self.tools_for(dialect).read_call(name, arguments) {
            Ok(execution) => execution,
            Err(fault) => return failed(fault),
        };
        match self.unfit(&execution) {
            Some(fault) => failed(fault),
            None => self.run(execution).await,
        }
    }

    /// What is wrong with arguments that the server's own stack would let pass.
    fn unfit(&self, execution: &ToolExecution) -> Option<Fault> {
        let server = self.server(execution.server.as_deref()?)?;
        let tool = server.known_tool(&execution.tool)?;
        // The server's own layers check it then.
        if tool.policy.arguments == ValidationMode::Enforce {
            return None;
        }
        check_arguments(&tool, execution.arguments.as_ref()).map(|fault| fault.on_server(server.name()))
    }
}

fn catalogs(servers: &[Server]) -> Catalogs {
    // Lists that grew old are fetched in the background.
    servers.iter().for_each(Server::freshen);
    let catalog = |server: &Server| server.catalog().as_ref().map(Arc::downgrade).unwrap_or_default();
    Catalogs(servers.iter().map(|server| (server.name().to_owned(), catalog(server))).collect())
}

/// A tool before it is put into words.
struct Plain {
    target: ToolTarget,
    description: String,
    schema: Value,
}

fn speak(servers: &[Server], dialect: SchemaDialect, options: dialect::DialectOptions) -> Spoken {
    let plain: Vec<Plain> = servers.iter().flat_map(plain_tools).collect();
    let targets = plain.iter().map(|tool| tool.target.clone());
    // Over all tools at once, so that no two share a name.
    let names = NameMap::build_within(targets, ToolNaming::Prefix, dialect.longest_name());
    let name = |tool: &Plain| names.name(&tool.target).unwrap_or_default().to_owned();
    let named: Vec<(String, &Plain)> = plain.iter().map(|tool| (name(tool), tool)).collect();
    let offered: Vec<NamedTool<'_>> = named
        .iter()
        .map(|(name, tool)| NamedTool { name, description: &tool.description, input_schema: &tool.schema })
        .collect();
    let (declarations, converted) = dialect::tools_for(dialect, &offered, options);
    let tools = named.iter().zip(converted).map(|((name, tool), converted)| {
        let spoken = SpokenTool { target: tool.target.clone(), losses: converted.losses, plan: converted.plan };
        (name.clone(), spoken)
    });
    Spoken { declarations, tools: tools.collect() }
}

fn plain_tools(server: &Server) -> Vec<Plain> {
    let Some(catalog) = server.catalog() else { return Vec::new() };
    let plain = |tool: &tsugi_protocol::mcp::tool::ToolDescription| Plain {
        target: ToolTarget::new(server.name(), tool.name()),
        description: tool.description().unwrap_or_default(),
        schema: tool.input_schema().and_then(|schema| schema.to_lossy().ok()).unwrap_or(Value::Bool(true)),
    };
    catalog.tools.items.iter().map(plain).collect()
}

#[cfg(test)]
mod tests;
