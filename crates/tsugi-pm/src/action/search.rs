//! Finding things by their words, by their history, and hearing what happened.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::action_context::ActionContext;
use super::caller::ActionCaller;
use super::view::{fit, page, rows};
use super::{Action, ActionEffect, Pm};
use crate::domain::event::{FieldChange, HistoryEvent};
use crate::domain::fault::PmFault;
use crate::domain::id::{ProjectId, TaskRef};
use crate::domain::limit::{self, KIB};
use crate::domain::notice::Notice;
use crate::domain::word::words;
use crate::store::tx::{EventFilter, SearchFilter, SearchHit};

words! {
    /// What can be found.
    Kind {
        /// A task.
        Task = "task",
        /// A piece of context.
        Context = "context",
        /// A handoff.
        Handoff = "handoff",
    }
}

/// Looks for words.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SearchRecords {
    /// The words; the last one may be unfinished.
    pub query: String,
    /// In this project.
    pub project_id: Option<ProjectId>,
    /// Among these; all unless said otherwise.
    #[serde(default)]
    pub kinds: Vec<Kind>,
    /// How many.
    pub limit: Option<i64>,
}

/// Something that was found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SearchMatch {
    /// Its id.
    #[serde(rename = "ref")]
    pub reference: String,
    /// What it is.
    pub kind: String,
    /// Its title.
    pub title: String,
    /// Where the words are.
    pub snippet: String,
    /// How well it fits; comparable within one answer.
    pub score: f64,
}

/// What was found, best first.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SearchMatches {
    /// The hits.
    pub hits: Vec<SearchMatch>,
}

impl Action for SearchRecords {
    const NAME: &'static str = "search";
    const EFFECT: ActionEffect = ActionEffect::Read;
    type ErasedOutput = SearchMatches;

    fn run(&self, desk: &mut ActionContext<'_, '_>) -> Result<SearchMatches, PmFault> {
        limit::chars("query", &self.query, 1, 200)?;
        let kinds = if self.kinds.is_empty() { Kind::ALL.to_vec() } else { self.kinds.clone() };
        let filter = SearchFilter {
            query: self.query.clone(),
            projects: desk.projects(self.project_id.as_ref())?,
            kinds: kinds.into_iter().map(Kind::as_str).collect(),
            limit: rows(self.limit)?,
        };
        let found = desk.tx.search_list(&filter)?;
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
    let word = query.split_whitespace().next().unwrap_or_default().to_lowercase();
    let at = body.to_lowercase().find(&word).filter(|at| body.is_char_boundary(*at)).unwrap_or(0);
    let start = (at.saturating_sub(60)..=at).find(|start| body.is_char_boundary(*start)).unwrap_or(0);
    let mark = if start > 0 { "…" } else { "" };
    format!("{mark}{}", limit::clip(&body[start..], 200 - mark.len()).0)
}

/// Reads the history.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct GetHistory {
    /// Of one thing.
    pub entity_id: Option<String>,
    /// Of one project.
    pub project_id: Option<ProjectId>,
    /// After this number.
    pub since_seq: Option<i64>,
    /// Newest first.
    pub newest: bool,
    /// Before this number, newest first.
    pub before_seq: Option<i64>,
    /// Only these kinds of event.
    pub types: Vec<String>,
    /// How many.
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
    type ErasedOutput = HistoryPage;

    fn run(&self, desk: &mut ActionContext<'_, '_>) -> Result<HistoryPage, PmFault> {
        let since = self.since_seq.unwrap_or(0);
        let is_operator_everywhere = desk.is_operator() && self.project_id.is_none();
        let projects = if is_operator_everywhere { None } else { Some(desk.projects(self.project_id.as_ref())?) };
        let filter = EventFilter {
            since,
            projects,
            before: self.before_seq.or(self.newest.then_some(i64::MAX)),
            entity: self.entity(desk)?,
            kinds: self.types.clone(),
            limit: rows(self.limit)? + 1,
        };
        let found = desk.tx.event_list(&filter)?;
        let (events, has_more) = page(found.into_iter().map(short_event).collect::<Vec<_>>(), self.limit)?;
        let next_seq = events.last().map_or(since, |event| event.seq);
        Ok(HistoryPage { events, next_seq, next_cursor: has_more.then(|| next_seq.to_string()) })
    }
}

impl GetHistory {
    /// A task may also be named by its reference.
    fn entity(&self, desk: &mut ActionContext<'_, '_>) -> Result<Option<String>, PmFault> {
        let Some(name) = &self.entity_id else { return Ok(None) };
        match TaskRef::parse(name) {
            Ok(task) => Ok(Some(desk.task_to_read(&task)?.id.to_string())),
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

/// What the caller should hear.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct GetNotifications {
    /// After this cursor.
    pub since: Option<i64>,
    /// How long to wait for one.
    pub wait_seconds: Option<u64>,
}

/// Notices, oldest first.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct NoticeList {
    /// The notices.
    pub notices: Vec<Notice>,
    /// The cursor to go on from.
    pub cursor: i64,
}

impl Action for GetNotifications {
    const NAME: &'static str = "get_notifications";
    const EFFECT: ActionEffect = ActionEffect::Read;
    type ErasedOutput = NoticeList;

    fn run(&self, desk: &mut ActionContext<'_, '_>) -> Result<NoticeList, PmFault> {
        if self.wait_seconds.is_some_and(|seconds| seconds > 50) {
            return Err(PmFault::invalid("`wait_seconds` is at most 50"));
        }
        let (agent, since) = (desk.agent()?, self.since.unwrap_or(0));
        let notices = fit(desk.tx.notice_list(&agent.id, since, 50)?, 16 * KIB).0;
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
            changes.borrow_and_update();
            let found = self.perform(caller, wish.clone()).await?;
            if !found.notices.is_empty() || tokio::time::Instant::now() >= deadline {
                return Ok(found);
            }
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
