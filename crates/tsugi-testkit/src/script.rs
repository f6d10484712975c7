//! What a scripted server is and does wrong, as data that can be given on a command line.

mod action;

use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use action::{Action, Form, Junk};

/// A whole script. Every part has a default, and the default is a well-behaved server of both eras.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Script {
    /// The name it gives itself.
    pub name: String,
    /// The version it gives itself; without one, the number of its launch.
    pub version: Option<String>,
    /// Which eras it speaks.
    pub era: Eras,
    /// The legacy revisions it accepts in `initialize`; others are answered with the last of these.
    pub versions: Vec<String>,
    /// A lie: this revision is claimed in `initialize` and `server/discover`, whatever was asked for.
    pub claims_version: Option<String>,
    /// A lie: these capabilities are claimed instead of the true ones.
    pub claims_capabilities: Option<Value>,
    /// Legacy requests before `initialize` are refused, as the Python servers do.
    pub needs_initialize: bool,
    /// How messages are framed on stdio, in both directions.
    pub framing: Framing,
    /// What ends a line on stdout.
    pub line_end: String,
    /// Everything is written in pieces of this many bytes, flushed one by one.
    pub pieces: Option<usize>,
    /// Waits before it reads or writes anything.
    pub start_delay_ms: u64,
    /// Stays alive when stdin ends.
    pub ignores_eof: bool,
    /// Stays alive on SIGTERM.
    pub ignores_sigterm: bool,
    /// Tools besides the usual ones, as they are listed. Calling one echoes its arguments.
    pub tools: Vec<Value>,
    /// This many further tools, `tool_0` and so on.
    pub extra_tools: usize,
    /// Entries on a page of `tools/list`; 0 means all.
    pub page_size: usize,
    /// Whether cursors lead to the end.
    pub paging: Paging,
    /// HTTP only: how requests are answered.
    pub http: Http,
    /// What it does, and when.
    pub rules: Vec<Rule>,
    /// Changes of this script for the first, second, … launch from the same state folder (members replace
    /// members). Launches after the last change use the script as it is.
    pub launches: Vec<Value>,
}

impl Default for Script {
    fn default() -> Self {
        Self {
            name: "scripted".into(),
            version: None,
            era: Eras::Both,
            versions: ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"].map(String::from).to_vec(),
            claims_version: None,
            claims_capabilities: None,
            needs_initialize: false,
            framing: Framing::Newline,
            line_end: "\n".into(),
            pieces: None,
            start_delay_ms: 0,
            ignores_eof: false,
            ignores_sigterm: false,
            tools: Vec::new(),
            extra_tools: 0,
            page_size: 0,
            paging: Paging::Honest,
            http: Http::default(),
            rules: Vec::new(),
            launches: Vec::new(),
        }
    }
}

/// Which eras a server speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Eras {
    /// Only with `initialize`.
    Legacy,
    /// Only with `_meta` in every request.
    Modern,
    /// Both.
    Both,
}

/// How messages are cut out of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Framing {
    /// One line each.
    Newline,
    /// `Content-Length: N`, an empty line, N bytes. What is no header is skipped.
    ContentLength,
    /// The same; the server ends when it reads what is no header.
    OnlyContentLength,
}

/// Where cursors lead.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Paging {
    /// To the end.
    Honest,
    /// To ever new pages with ever new tools.
    Endless,
    /// Back to where one was.
    Loop,
}

/// How an HTTP server answers.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Http {
    /// Always as a stream of events, even without notes.
    pub always_sse: bool,
    /// Never as a stream; notes are lost.
    pub never_sse: bool,
    /// The stream stays open after the answer.
    pub lingers: bool,
    /// Legacy sessions: an id is given and then demanded.
    pub sessions: bool,
    /// Legacy: events have ids, and `GET` with `Last-Event-ID` continues a stream.
    pub resumable: bool,
    /// Legacy: a stream is cut after this many events, to be resumed.
    pub cut_after: Option<usize>,
    /// Also serves HTTP+SSE of 2024-11-05 at `/sse` and `/messages`.
    pub old_sse: bool,
    /// A bearer token that is demanded of every request.
    pub token: Option<String>,
}

impl Default for Http {
    fn default() -> Self {
        Self {
            always_sse: false,
            never_sse: false,
            lingers: false,
            sessions: true,
            resumable: false,
            cut_after: None,
            old_sse: true,
            token: None,
        }
    }
}

/// Something done at a point of the conversation.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// The point: a method (`tools/call`, `notifications/initialized`, …), `*` for every request, or one of
    /// `start`, `eof`; over HTTP also `GET` and `DELETE`.
    pub on: String,
    /// Only for this tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// Only the n-th time that the point is reached in this process, counted from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nth: Option<u64>,
    /// Only every n-th time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub every: Option<u64>,
    /// Only in the n-th launch from the same state folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub launch: Option<u64>,
    /// After the answer instead of before.
    #[serde(default)]
    pub after: bool,
    /// What is done, in this order.
    #[serde(rename = "do")]
    pub actions: Vec<Action>,
}

impl Rule {
    /// At this point.
    pub fn on(point: &str) -> Self {
        Self { on: point.into(), tool: None, nth: None, every: None, launch: None, after: false, actions: Vec::new() }
    }

    /// When this tool is called.
    pub fn on_tool(tool: &str) -> Self {
        Self { tool: Some(tool.into()), ..Self::on("tools/call") }
    }

    /// Only the n-th time.
    pub fn nth(mut self, nth: u64) -> Self {
        self.nth = Some(nth);
        self
    }

    /// Only every n-th time.
    pub fn every(mut self, every: u64) -> Self {
        self.every = Some(every);
        self
    }

    /// Only in the n-th launch.
    pub fn launch(mut self, launch: u64) -> Self {
        self.launch = Some(launch);
        self
    }

    /// After the answer.
    pub fn after(mut self) -> Self {
        self.after = true;
        self
    }

    /// Does this.
    pub fn act(mut self, action: Action) -> Self {
        self.actions.push(action);
        self
    }
}

impl Script {
    /// A well-behaved server that only knows `initialize`.
    pub fn legacy() -> Self {
        Self { era: Eras::Legacy, ..Self::default() }
    }

    /// A well-behaved server that only knows 2026-07-28.
    pub fn modern() -> Self {
        Self { era: Eras::Modern, ..Self::default() }
    }

    /// A legacy server that knows this revision alone.
    pub fn only(version: &str) -> Self {
        Self { versions: vec![version.into()], ..Self::legacy() }
    }

    /// With one more rule.
    pub fn rule(mut self, rule: Rule) -> Self {
        self.rules.push(rule);
        self
    }

    /// As JSON, for a command line.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("a script is always JSON")
    }

    /// Reads a script. Unknown members are refused, so that a misspelt fault does not become a good server.
    pub fn from_json(text: &str) -> Result<Self, String> {
        serde_json::from_str(text).map_err(|error| format!("not a script: {error}"))
    }

    /// The script as it is in the n-th launch.
    pub fn at_launch(&self, launch: u64) -> Result<Self, String> {
        let Some(Value::Object(changes)) = self.launches.get(launch.saturating_sub(1) as usize) else {
            return Ok(self.clone());
        };
        let mut script = serde_json::to_value(self).map_err(|error| error.to_string())?;
        for (key, value) in changes {
            script[key] = value.clone();
        }
        serde_json::from_value(script).map_err(|error| format!("launch {launch} is not a script: {error}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_reads_back_and_misspelt_parts_are_refused() {
        let script = Script::legacy().rule(Rule::on_tool("count").nth(2).act(Action::Exit(3)).act(Action::Silence));
        let again = Script::from_json(&script.to_json()).unwrap();
        assert_eq!(again.to_json(), script.to_json());
        for wrong in
            [r#"{"ear":"legacy"}"#, r#"{"rules":[{"on":"start","do":["explode"]}]}"#, r#"{"rules":[{"on":"start"}]}"#]
        {
            assert!(Script::from_json(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn launches_change_the_script_one_after_the_other() {
        let script = Script {
            launches: vec![serde_json::json!({"era": "modern"}), serde_json::json!({"page_size": 3})],
            ..Script::legacy()
        };
        assert_eq!(script.at_launch(1).unwrap().era, Eras::Modern);
        assert_eq!(script.at_launch(2).unwrap().page_size, 3);
        assert_eq!(script.at_launch(3).unwrap().era, Eras::Legacy);
    }
}
