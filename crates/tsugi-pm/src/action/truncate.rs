//! Long records cut to a budget, and told what was cut: an answer that silently lacks something misleads its reader.

use std::ops::Deref;

use serde::{Deserialize, Serialize};

use super::view::fit;
use crate::domain::context::ContextEntry;
use crate::domain::handoff::{GitState, Handoff};
use crate::domain::limit;

/// A handoff as an answer shows it: its long parts cut, and named.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HandoffView {
    #[serde(flatten)]
    pub handoff: Handoff,
    /// The parts that were cut.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub truncated: Vec<String>,
}

impl Deref for HandoffView {
    type Target = Handoff;

    fn deref(&self) -> &Handoff {
        &self.handoff
    }
}

impl HandoffView {
    /// A handoff in so many bytes: its short parts are whole, its long ones share what is left.
    pub fn within(handoff: Handoff, budget: usize) -> Self {
        let mut handoff = handoff;
        let mut git = handoff.git.take();
        let mut none = Vec::new();
        let files = git.as_mut().map_or(&mut none, |git: &mut GitState| &mut git.files);
        let mut lists = [
            ("next_steps", &mut handoff.next_steps),
            ("warnings", &mut handoff.warnings),
            ("uncertain", &mut handoff.uncertain),
            ("done", &mut handoff.done),
            ("git.files", files),
        ];
        let sizes = lists.each_ref().map(|(_, texts)| texts.iter().map(written).sum());
        let [summary, rest @ ..] =
            shares([handoff.summary.len(), sizes[0], sizes[1], sizes[2], sizes[3], sizes[4]], budget);
        let mut truncated = Vec::new();
        let (text, is_cut) = limit::clip(&handoff.summary, summary);
        handoff.summary = text;
        if is_cut {
            truncated.push("summary".to_owned());
        }
        for ((name, texts), share) in lists.iter_mut().zip(rest) {
            if clip_list(texts, share) {
                truncated.push((*name).to_owned());
            }
        }
        handoff.git = git;
        Self { handoff, truncated }
    }
}

/// How long a text is as an entry of a list.
fn written(text: &String) -> usize {
    serde_json::to_string(text).map_or(0, |text| text.len() + 1)
}

/// What each part gets of a budget: all it needs if it is short, else an equal share of what the short ones leave.
fn shares<const N: usize>(sizes: [usize; N], budget: usize) -> [usize; N] {
    let mut order: [usize; N] = std::array::from_fn(|at| at);
    order.sort_by_key(|at| sizes[*at]);
    let (mut left, mut shares) = (budget, [0; N]);
    for (done, at) in order.into_iter().enumerate() {
        shares[at] = sizes[at].min(left / (N - done));
        left -= shares[at];
    }
    shares
}

/// Keeps as many texts as fit, and of the first that does not at least the beginning; says whether something is lost.
pub(super) fn clip_list(texts: &mut Vec<String>, budget: usize) -> bool {
    let mut left = budget;
    for at in 0..texts.len() {
        let size = written(&texts[at]);
        if size <= left {
            left -= size;
            continue;
        }
        let (text, _) = limit::clip(&texts[at], left.saturating_sub(3));
        texts.truncate(at);
        if at == 0 && !text.is_empty() {
            texts.push(text);
        }
        return true;
    }
    false
}

/// Contexts cut to a budget, in the order given. Where there are few, each may be longer.
pub fn contexts_within(contexts: Vec<ContextEntry>, budget: usize) -> (Vec<ContextEntry>, bool) {
    let each = budget / contexts.len().clamp(1, 4);
    let is_long = contexts.iter().any(|one| one.content.len() > each);
    let cut = contexts.into_iter().map(|one| ContextEntry { content: limit::clip(&one.content, each).0, ..one });
    let (kept, is_cut) = fit(cut.collect(), budget);
    (kept, is_cut || is_long)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_parts_are_whole_and_long_ones_share_the_rest() {
        assert_eq!(shares([10, 1000, 20, 1000], 430), [10, 200, 20, 200]);
        assert_eq!(shares([10, 20], 100), [10, 20]);
        assert_eq!(shares([100, 100], 0), [0, 0]);
    }

    #[test]
    fn a_list_says_when_it_is_cut_and_keeps_the_beginning_of_its_first_entry() {
        let mut texts = vec!["a".repeat(10), "b".repeat(10)];
        assert!(!clip_list(&mut texts, 26));
        assert!(clip_list(&mut texts, 20));
        assert_eq!(texts, ["a".repeat(10)]);
        assert!(clip_list(&mut texts, 8));
        assert!(texts[0].starts_with("aa") && texts[0].len() < 10, "{texts:?}");
    }
}
