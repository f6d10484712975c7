//! A typed way to a connected [Serena](https://github.com/oraios/serena): symbols, searches and memories as Rust values.
//!
//! Its tools are found by what the server really lists, since they were renamed and removed over time.
//! What this Serena lacks answers with a fault that says so.

mod read;
mod symbol;

use std::time::Duration;

use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use tsugi_protocol::answer::{Answer, Call, Fault, FaultCode};
use tsugi_protocol::json::RawJson;
use tsugi_protocol::mcp::meta::RequestMeta;

use crate::catalog::Catalog;
use crate::result::ToolResult;
use crate::server::Server;
pub use symbol::{CodeSymbol, DirectoryListing, FindSymbol, PatternHit, SymbolKind, SymbolOverview, SymbolReference};

/// How long a Serena may take to start: it imports much, and a language server comes after it.
const START: Duration = Duration::from_secs(60);

/// A Serena that is connected and offers its tools one by one.
#[derive(Clone)]
pub struct Serena {
    server: Server,
}

impl Serena {
    /// Recognises a Serena. Fails when it is none, or when it offers only its REPL.
    pub async fn over(server: Server) -> Result<Self, Fault> {
        let catalog = server.ready(START).await?;
        let has = |tool: &str| catalog.tool(tool).is_some();
        if has("serena_repl") && !has("find_symbol") {
            let fault = Fault::new(FaultCode::ConfigInvalid, "this Serena offers only its REPL");
            return Err(fault.on_server(server.name()).with_hint("start it with `--agent-interface tools`"));
        }
        if !is_serena(&catalog) {
            let fault = Fault::new(FaultCode::ConfigInvalid, "this server is not a Serena");
            return Err(fault.on_server(server.name()));
        }
        Ok(Self { server })
    }

    pub async fn find_symbol(&self, wanted: FindSymbol) -> Result<Vec<CodeSymbol>, Fault> {
        self.ask("find_symbol", wanted.to_arguments()).await
    }

    /// The symbols of a file, by kind.
    pub async fn symbols_overview(&self, path: &str, depth: u32) -> Result<SymbolOverview, Fault> {
        self.ask("get_symbols_overview", json!({"relative_path": path, "depth": depth})).await
    }

    /// The symbols that refer to one.
    pub async fn find_referencing_symbols(&self, symbol: &str, path: &str) -> Result<Vec<SymbolReference>, Fault> {
        let found: Value =
            self.ask("find_referencing_symbols", json!({"name_path": symbol, "relative_path": path})).await?;
        Ok(read::references(&found))
    }

    /// Replaces the definition of a symbol, signature included.
    pub async fn replace_symbol_body(&self, symbol: &str, path: &str, body: &str) -> Result<(), Fault> {
        self.edit("replace_symbol_body", symbol, path, body).await
    }

    /// Inserts text before the definition of a symbol.
    pub async fn insert_before_symbol(&self, symbol: &str, path: &str, body: &str) -> Result<(), Fault> {
        self.edit("insert_before_symbol", symbol, path, body).await
    }

    /// Inserts text after the definition of a symbol.
    pub async fn insert_after_symbol(&self, symbol: &str, path: &str, body: &str) -> Result<(), Fault> {
        self.edit("insert_after_symbol", symbol, path, body).await
    }

    async fn edit(&self, tool: &str, symbol: &str, path: &str, body: &str) -> Result<(), Fault> {
        self.text(tool, json!({"name_path": symbol, "relative_path": path, "body": body})).await.map(drop)
    }

    /// Lines that match a regular expression, by file. `path` narrows it to a file or a directory.
    pub async fn search_for_pattern(&self, pattern: &str, path: Option<&str>) -> Result<Vec<PatternHit>, Fault> {
        let mut arguments = json!({"substring_pattern": pattern, "relative_path": path.unwrap_or_default()});
        // Serena 2 matches across lines unless told otherwise; version 1 refuses the argument.
        if self.has_parameter("search_for_pattern", "multiline") {
            arguments["multiline"] = json!(false);
        }
        let found: Value = self.ask("search_for_pattern", arguments).await?;
        Ok(read::hits(&found))
    }

    /// Replaces every match of a regular expression in a file, and returns how many there were.
    pub async fn replace_regex(&self, path: &str, pattern: &str, replacement: &str) -> Result<usize, Fault> {
        let arguments = json!({
            "needle": pattern, "repl": replacement, "mode": "regex", "relative_path": path
        });
        let answer = self.text("replace_in_files", arguments).await?;
        // The count stands in a sentence; without a number in it, nothing can be said.
        read::count(&answer).ok_or_else(|| self.unreadable("replace_in_files", &answer))
    }

    /// Files whose names match a mask such as `*.py`, under a directory.
    pub async fn find_file(&self, mask: &str, path: &str) -> Result<Vec<String>, Fault> {
        let listing: DirectoryListing =
            self.ask("find_file", json!({"file_mask": mask, "relative_path": path})).await?;
        Ok(listing.files)
    }

    /// What is in a directory.
    pub async fn list_dir(&self, path: &str, recursive: bool) -> Result<DirectoryListing, Fault> {
        self.ask("list_dir", json!({"relative_path": path, "recursive": recursive})).await
    }

    /// The text of a file.
    pub async fn read_file(&self, path: &str) -> Result<String, Fault> {
        self.text("read_file", json!({"relative_path": path})).await
    }

    /// Reads a memory by its name.
    pub async fn read_memory(&self, name: &str) -> Result<String, Fault> {
        self.text("read_memory", json!({"memory_name": name})).await
    }

    /// Writes a memory.
    pub async fn write_memory(&self, name: &str, content: &str) -> Result<(), Fault> {
        self.text("write_memory", json!({"memory_name": name, "content": content})).await.map(drop)
    }

    /// The names of all memories.
    pub async fn list_memories(&self) -> Result<Vec<String>, Fault> {
        let found: Value = self.ask("list_memories", json!({})).await?;
        Ok(read::memories(&found))
    }

    /// Deletes a memory.
    pub async fn delete_memory(&self, name: &str) -> Result<(), Fault> {
        self.text("delete_memory", json!({"memory_name": name})).await.map(drop)
    }

    /// Renames a symbol everywhere.
    pub async fn rename_symbol(&self, symbol: &str, path: &str, name: &str) -> Result<(), Fault> {
        let arguments = json!({"name_path": symbol, "relative_path": path, "new_name": name});
        self.text("rename_symbol", arguments).await.map(drop)
    }

    /// Asks the model to look at what it has collected; removed from Serena 2.
    pub async fn think_about_collected_information(&self) -> Result<String, Fault> {
        self.text("think_about_collected_information", json!({})).await
    }

    /// Asks the model whether it is done; removed from Serena 2.
    pub async fn think_about_whether_you_are_done(&self) -> Result<String, Fault> {
        self.text("think_about_whether_you_are_done", json!({})).await
    }

    /// Calls any tool of this Serena and gives its text.
    pub async fn text(&self, tool: &str, arguments: Value) -> Result<String, Fault> {
        let result = self.call(tool, arguments).await?;
        let said = result.data.as_ref().and_then(|data| data.get("result")).and_then(Value::as_str);
        Ok(said.map(str::to_owned).or_else(|| result.text()).unwrap_or_default())
    }

    /// Calls any tool of this Serena and reads the JSON in its text.
    pub async fn ask<T: DeserializeOwned>(&self, tool: &str, arguments: Value) -> Result<T, Fault> {
        let text = self.text(tool, arguments).await?;
        serde_json::from_str(&text).map_err(|_| self.unreadable(tool, &text))
    }

    async fn call(&self, tool: &str, arguments: Value) -> Result<ToolResult, Fault> {
        // Its tool sets differ by mode and version, so a missing tool is an expected answer.
        if self.server.catalog().is_some_and(|catalog| catalog.tool(tool).is_none()) {
            return Err(self.fault(FaultCode::ToolNotFound, tool, format!("{tool} is unsupported by this Serena")));
        }
        let started = std::time::Instant::now();
        let mut call = Call::tool(tool, Some(&RawJson::from(arguments)));
        call.meta = RequestMeta::of_client(self.server.options().profile.clone());
        let outcome = self.server.answer(call).outcome().await;
        let result = ToolResult::new(tool, Some(self.server.name()), outcome, started.elapsed());
        match (&result.error, &result.fault) {
            (_, Some(fault)) => Err(fault.clone()),
            // What it says may hold orders to a model; here it is only a message.
            (Some(error), None) => Err(self.fault(FaultCode::ExecutionFailed, tool, error.message.clone())),
            (None, None) => Ok(result),
        }
    }

    fn has_parameter(&self, tool: &str, parameter: &str) -> bool {
        let schema = self.server.catalog().and_then(|catalog| catalog.tool(tool)?.input_schema());
        let schema: Option<Map<String, Value>> = schema.and_then(|schema| schema.to().ok());
        schema.is_some_and(|schema| schema.get("properties").is_some_and(|known| known.get(parameter).is_some()))
    }

    fn unreadable(&self, tool: &str, text: &str) -> Fault {
        let shown: String = text.chars().take(200).collect();
        self.fault(FaultCode::InvalidResponse, tool, format!("{tool} gave something unexpected: {shown}"))
    }

    fn fault(&self, code: FaultCode, tool: &str, message: String) -> Fault {
        Fault::new(code, message).on_server(self.server.name()).on_tool(tool)
    }
}

/// Whether what a server offers looks like a Serena.
pub(crate) fn is_serena(catalog: &Catalog) -> bool {
    let has = |tool: &str| catalog.tool(tool).is_some();
    // Version 2 has one tool for programs; version 1 is known by two that no other server has together.
    has("serena_repl") || (has("find_symbol") && has("get_symbols_overview"))
}

#[cfg(test)]
mod tests;
