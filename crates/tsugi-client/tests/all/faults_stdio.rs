//! Faults of servers over stdio: rows F-01 to F-27, F-29 and F-30 of the fault list.
//!
//! Every row begins with the legitimate call and ends with [`PatternCache::finish`](crate::world::PatternCache::finish):
//! one outcome for each call, a bystander that noticed nothing, nothing in flight, a next call that works, and no
//! process left.

mod answer;
mod call;
mod end;
mod framing;
mod noise;
mod start;

use serde_json::json;
use tsugi_testkit::script::{Action, Rule, Script};

use crate::subject::Subject;
use crate::world::{Bench, LIMIT};

/// The same server in both eras.
fn eras() -> [Script; 2] {
    [Script::legacy(), Script::modern()]
}

/// With the tools `hold`, which is never answered, and `late`, which is answered too late.
pub(crate) fn patient(script: Script) -> Script {
    let tool = |name: &str| json!({"name": name, "inputSchema": {"type": "object"}});
    Script { tools: vec![tool("hold"), tool("late")], ..script }
        .rule(Rule::on_tool("hold").act(Action::Silence))
        .rule(Rule::on_tool("late").act(Action::Sleep(900)))
}

/// tsugi as the subject of a check.
fn subject(bench: &Bench) -> Subject {
    Subject::new(bench.server.clone(), LIMIT)
}
