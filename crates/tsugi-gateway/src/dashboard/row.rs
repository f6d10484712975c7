//! A line of the overview: how a server stands, how it does, and what needs attention first.

use serde::Serialize;

use super::observe::{ServerState, ServerTrouble};
use super::series::CallNumbers;
use super::viewer::DashboardViewer;

/// Fewer failed calls in a minute than this need no attention.
const FEW: u64 = 5;
/// A larger part of failed calls than this does.
const MANY: f64 = 0.1;

/// A server's line.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct ServerRow {
    #[serde(flatten)]
    pub(super) state: ServerState,
    #[serde(flatten)]
    pub(super) numbers: CallNumbers,
}

/// Something that an operator should look at.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct AttentionItem {
    server: String,
    #[serde(flatten)]
    trouble: ServerTrouble,
}

/// The lines of all servers that this viewer may see.
pub(super) fn rows(viewer: &DashboardViewer) -> Vec<ServerRow> {
    let Some(observed) = viewer.backend().observe() else { return Vec::new() };
    let states = observed.states().into_iter().filter(|state| viewer.sees_server(&state.name));
    states.map(|state| row(viewer, state)).collect()
}

/// The line of one server.
pub(super) fn row(viewer: &DashboardViewer, state: ServerState) -> ServerRow {
    // What a server printed is for those who run it.
    let state = if viewer.is_admin() { state } else { state.without_output() };
    ServerRow { numbers: viewer.recorder().numbers(Some(&state.name)), state }
}

/// What needs attention, the worst first.
pub(super) fn attention(rows: &[ServerRow]) -> Vec<AttentionItem> {
    let mut found: Vec<AttentionItem> = rows.iter().flat_map(troubles).collect();
    found.sort_by_key(|attention| rank(attention.trouble.kind));
    found
}

fn troubles(row: &ServerRow) -> impl Iterator<Item = AttentionItem> {
    let failed = (row.numbers.error_rate * row.numbers.calls as f64).round() as u64;
    let fails = (row.numbers.error_rate > MANY && failed >= FEW).then(|| {
        let percent = (row.numbers.error_rate * 100.0).round();
        let text = format!("{percent} % of its calls failed in the last minute ({failed} of {})", row.numbers.calls);
        ServerTrouble::new("errors", text)
    });
    let all = row.state.troubles.iter().cloned().chain(fails);
    all.map(|trouble| AttentionItem { server: row.state.name.clone(), trouble })
}

fn rank(kind: &str) -> usize {
    let order = ["failed", "sign-in", "left-alone", "reconnecting", "errors", "list", "names", "sandbox"];
    order.iter().position(|known| *known == kind).unwrap_or(order.len())
}
