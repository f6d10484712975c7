//! Finding things by their words, by their history, and hearing what happened.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::action_context::ActionContext;
use super::caller::ActionCaller;
use super::view::{fit, page, rows};
use super::{Action, ActionEffect, Pm};
use crate::domain::event::{EventKind, FieldChange, HistoryEvent};
use crate::domain::fault::PmFault;
use crate::domain::id::{ProjectRef, TaskRef, is_project_key};
use crate::domain::limit::{self, KIB};
use crate::domain::notice::Notice;
use crate::domain::word::words;
use crate::store::tx::{EventFilter, SearchFilter, SearchHit};

words! {
    /// What can be found.
    Kind {
        Task = "task",
        /// A piece of context.
        Context = "context",
        Handoff = "handoff",
    }
}

/// Looks for words.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SearchRecords {
    /// words
    #[schemars(extend("ja" = "検索語"))]
    pub query: String,
    /// id or key
    #[schemars(extend("ja" = "ID・キー"))]
    pub project_id: Option<ProjectRef>,
    /// all if unset
    #[serde(default)]
    #[schemars(extend("ja" = "対象"))]
    pub kinds: Vec<Kind>,
    /// at most
    #[schemars(extend("ja" = "件数"))]
    pub limit: Option<i64>,
}

/// Something that was found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SearchMatch {
    #[serde(rename = "ref")]
    pub reference: String,
    pub kind: String,
    pub title: String,
    /// Where the words are.
    pub snippet: String,
    /// How well it fits; comparable within one answer.
    pub score: f64,
}

/// What was found, best first.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SearchMatches {
    pub hits: Vec<SearchMatch>,
}

impl Action for SearchRecords {
    const NAME: &'static str = "search";
    const EFFECT: ActionEffect = ActionEffect::Read;
    type Output = SearchMatches;

    fn run(&self, context: &mut ActionContext<'_, '_>) -> Result<SearchMatches, PmFault> {
        limit::chars("query", &self.query, 1, 200)?;
        // No kind means every kind, not none.
        let kinds = if self.kinds.is_empty() { Kind::ALL.to_vec() } else { self.kinds.clone() };
        let filter = SearchFilter {
            query: self.query.clone(),
            projects: context.projects(self.project_id.as_ref())?,
            kinds: kinds.into_iter().map(Kind::as_str).collect(),
            limit: rows(self.limit)?,
        };
        let found = context.tx.search_list(&filter)?;
        Ok(SearchMatches { hits: found.into_iter().map(|hit| show(hit, &self.query)).collect() })
    }
}

fn show(hit: SearchHit, query: &str) -> SearchMatch {
    SearchMatch {
        snippet: snippet(&hit.body, query),
        reference: hit.id,
        kind: hit.kind,
        title: limit::clip(&hit.title, 200).0,
        score: hit.score,
    }
}

/// The part of a text around the first word that was looked for, at most 200 bytes.
fn snippet(body: &str, query: &str) -> String {
    // The first word is usually the rarest.
    let word = query.split_whitespace().next().unwrap_or_default().to_lowercase();
    // Lower case may change lengths, so a position is used only if it is one in the original.
    let at = body.to_lowercase().find(&word).filter(|at| body.is_char_boundary(*at)).unwrap_or(0);
    let start = (at.saturating_sub(60)..=at).find(|start| body.is_char_boundary(*start)).unwrap_or(0);
    let mark = if start > 0 { "…" } else { "" };
    format!("{mark}{}", limit::clip(&body[start..], 200 - mark.len()).0)
}

/// Reads the history.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct GetHistory {
    /// task, session…
    #[schemars(extend("ja" = "対象ID"))]
    pub entity_id: Option<String>,
    /// id or key
    #[schemars(extend("ja" = "ID・キー"))]
    pub project_id: Option<ProjectRef>,
    /// after it
    #[schemars(extend("ja" = "より後"))]
    pub since_seq: Option<i64>,
    /// newest first
    #[schemars(extend("ja" = "新しい順"))]
    pub newest: bool,
    /// before it
    #[schemars(extend("ja" = "より前"))]
    pub before_seq: Option<i64>,
    /// event types
    #[schemars(extend("ja" = "種別"))]
    #[schemars(with = "Vec<String>")]
    pub types: Vec<EventKind>,
    /// at most
    #[schemars(extend("ja" = "件数"))]
    pub limit: Option<i64>,
}

/// A page of history, oldest first unless asked otherwise.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct HistoryPage {
    /// The events, their long values cut.
    pub events: Vec<HistoryEvent>,
    /// The number to go on from.
    pub next_seq: i64,
    /// Where to go on, when there are more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

impl Action for GetHistory {
    const NAME: &'static str = "get_history";
    const EFFECT: ActionEffect = ActionEffect::Read;
    type Output = HistoryPage;

    fn run(&self, context: &mut ActionContext<'_, '_>) -> Result<HistoryPage, PmFault> {
        let since = self.since_seq.unwrap_or(0);
        // Without a filter the index on the number alone serves the query.
        let is_operator_everywhere = context.is_operator() && self.project_id.is_none();
        // Events of other projects are not even counted.
        let projects = if is_operator_everywhere { None } else { Some(context.projects(self.project_id.as_ref())?) };
        let filter = EventFilter {
            since,
            projects,
            before: self.before_seq.or(self.newest.then_some(i64::MAX)),
            entity: self.entity(context)?,
            kinds: self.types.clone(),
            limit: rows(self.limit)? + 1,
        };
        let found = context.tx.event_list(&filter)?;
        let (events, has_more) = page(found.into_iter().map(short_event).collect::<Vec<_>>(), self.limit)?;
        // A page without events continues where it began.
        let next_seq = events.last().map_or(since, |event| event.seq);
        Ok(HistoryPage { events, next_seq, next_cursor: has_more.then(|| next_seq.to_string()) })
    }
}

impl GetHistory {
    /// A task may also be named by its reference, a project by its key.
    fn entity(&self, context: &mut ActionContext<'_, '_>) -> Result<Option<String>, PmFault> {
        let Some(name) = &self.entity_id else { return Ok(None) };
        match TaskRef::parse(name) {
            Ok(task) => Ok(Some(context.task_to_read(&task)?.id.to_string())),
            Err(_) if is_project_key(name) => Ok(Some(context.project_id(&ProjectRef::Key(name.clone()))?.to_string())),
            Err(_) => Ok(Some(name.clone())),
        }
    }
}

/// An event whose long values are cut: the history tells what changed, not the whole text twice.
pub(super) fn short_event(event: HistoryEvent) -> HistoryEvent {
    let changes = event.changes.into_iter().map(|change| FieldChange {
        old: short(change.old),
        new: short(change.new),
        ..change
    });
    // One event must not fill a page.
    let (changes, _) = fit(changes.collect(), 4 * KIB);
    HistoryEvent { changes, ..event }
}

fn short(value: Value) -> Value {
    match value {
        Value::String(text) if text.len() > 300 => Value::String(limit::clip(&text, 300).0),
        Value::Array(_) | Value::Object(_) if value.to_string().len() > 600 => {
            Value::String(limit::clip(&value.to_string(), 300).0)
        }
        other => other,
    }
}

/// Reads the caller's notices.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct GetNotifications {
    /// last cursor
    #[schemars(extend("ja" = "前回の cursor"))]
    pub since: Option<i64>,
    /// up to 50
    #[schemars(extend("ja" = "秒(最大50)"))]
    pub wait_seconds: Option<u64>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct NoticeList {
    pub notices: Vec<Notice>,
    /// The cursor to go on from.
    pub cursor: i64,
}

impl Action for GetNotifications {
    const NAME: &'static str = "get_notifications";
    const EFFECT: ActionEffect = ActionEffect::Read;
    type Output = NoticeList;

    fn run(&self, context: &mut ActionContext<'_, '_>) -> Result<NoticeList, PmFault> {
        if self.wait_seconds.is_some_and(|seconds| seconds > 50) {
            return Err(PmFault::invalid("`wait_seconds` is at most 50"));
        }
        let (agent, since) = (context.agent()?, self.since.unwrap_or(0));
        let notices = fit(context.tx.notice_list(&agent.id, since, 50)?, 16 * KIB).0;
        let cursor = notices.last().map_or(since, |notice| notice.id);
        Ok(NoticeList { notices, cursor })
    }
}

impl Pm {
    /// Notices for the caller, waiting for the first as long as it asked to. [`Pm::perform`] does not wait.
    pub async fn wait_for_notifications(
        &self,
        caller: &ActionCaller,
        wish: GetNotifications,
    ) -> Result<NoticeList, PmFault> {
        let waiting = Duration::from_secs(wish.wait_seconds.unwrap_or(0));
        if waiting.is_zero() {
            return self.perform(caller, wish).await;
        }
        let mut changes = self.store().changes();
        let deadline = tokio::time::Instant::now() + waiting;
        loop {
            // Marked as seen before the look: a commit during the look wakes us again.
            changes.borrow_and_update();
            let found = self.perform(caller, wish.clone()).await?;
            if !found.notices.is_empty() || tokio::time::Instant::now() >= deadline {
                return Ok(found);
            }
            // Whether woken or out of time, the loop looks once more.
            let _ = tokio::time::timeout_at(deadline, changes.changed()).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snippet_shows_the_word_and_stays_within_two_hundred_bytes() {
        let body = format!("{} the lease ran out {}", "前置き".repeat(100), "x".repeat(500));
        let text = snippet(&body, "Lease");
        assert!(text.contains("lease") && text.len() <= 200 && text.starts_with('…'), "{text}");
        assert_eq!(snippet("short", "nothing"), "short");
    }
}
