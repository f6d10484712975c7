//! Remembered decisions of one caller: most calls repeat a question whose answer cannot have changed.

use std::hash::{BuildHasher, Hash, Hasher};

use foldhash::fast::RandomState;
use hashbrown::HashTable;
use parking_lot::Mutex;

use crate::question::{NameKind, PolicyAction, PolicyQuestion};
use crate::set::{PlannedRules, PolicyDecision, PolicySet, PolicyVerdict};

/// Entries at most. A caller that asks about more things starts again.
const MOST: usize = 1024;

/// The decisions of one caller's authority. It is empty until a policy is asked.
#[derive(Debug, Default)]
pub struct DecisionCache {
    table: Mutex<CacheTable>,
    hasher: RandomState,
}

#[derive(Debug, Default)]
struct CacheTable {
    /// Which rules the entries are about.
    generation: u64,
    entries: HashTable<CacheEntry>,
}

#[derive(Debug)]
struct CacheEntry {
    hash: u64,
    asked: AskedKind,
    server: Box<str>,
    name: Box<str>,
    remembered: RememberedAnswer,
}

/// What distinguishes questions about one name.
type AskedKind = (PolicyAction, NameKind, &'static str, &'static str);

#[derive(Debug, Clone)]
enum RememberedAnswer {
    Verdict(PolicyVerdict),
    /// Which rules to ask: their answers can differ the next time.
    Ask(PlannedRules),
}

impl DecisionCache {
    /// Decides by `set`, whose rules are those of this generation. Answers that depend on arguments, address or time are
    /// found again each time; which rules they depend on is remembered.
    pub fn decide(&self, set: &PolicySet, generation: u64, question: &PolicyQuestion<'_>) -> PolicyDecision {
        let asked = kind(question);
        let hash = self.hash(&asked, question);
        let known = {
            let table = self.table.lock();
            (table.generation == generation)
                .then(|| table.entries.find(hash, |entry| entry.is_about(&asked, question)))
                .flatten()
                .map(|entry| entry.remembered.clone())
        };
        match known {
            Some(RememberedAnswer::Verdict(verdict)) => verdict.into(),
            Some(RememberedAnswer::Ask(planned)) => set.decide_planned(&planned, question),
            None => self.decide_first(set, generation, question, asked, hash),
        }
    }

    fn decide_first(
        &self,
        set: &PolicySet,
        generation: u64,
        question: &PolicyQuestion<'_>,
        asked: AskedKind,
        hash: u64,
    ) -> PolicyDecision {
        let planned = set.plan(question);
        let decision = set.decide_planned(&planned, question);
        // An error has a text, and is worth being found again.
        let remembered = match decision.error.is_none() && set.is_lasting(&planned) {
            true => RememberedAnswer::Verdict(decision.verdict),
            false => RememberedAnswer::Ask(planned),
        };
        let (server, name) = (question.resource.server.into(), question.resource.name.into());
        let entry = CacheEntry { hash, asked, server, name, remembered };
        let mut table = self.table.lock();
        if table.generation != generation || table.entries.len() >= MOST {
            // A call may still hold the rules from before; its answer must not outlive them.
            if table.generation > generation {
                return decision;
            }
            table.entries.clear();
            table.generation = generation;
        }
        // Two calls may have asked the same at once.
        if table.entries.find(hash, |known| known.is_about(&asked, question)).is_none() {
            table.entries.insert_unique(hash, entry, |entry| entry.hash);
        }
        decision
    }

    fn hash(&self, asked: &AskedKind, question: &PolicyQuestion<'_>) -> u64 {
        let mut hasher = self.hasher.build_hasher();
        (asked.0, asked.1).hash(&mut hasher);
        question.resource.server.hash(&mut hasher);
        question.resource.name.hash(&mut hasher);
        hasher.finish()
    }
}

impl CacheEntry {
    fn is_about(&self, asked: &AskedKind, question: &PolicyQuestion<'_>) -> bool {
        self.asked == *asked && *self.name == *question.resource.name && *self.server == *question.resource.server
    }
}

fn kind(question: &PolicyQuestion<'_>) -> AskedKind {
    (question.action, question.resource.kind, question.context.face, question.context.era)
}
