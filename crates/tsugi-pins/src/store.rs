//! The pins of one configuration: keeps the lock file, judges what servers offer, and remembers what differs.

mod event;
mod lock_on_disk;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use parking_lot::Mutex;

use crate::canonical::PinDigest;
use crate::compare::{DefinitionOffer, DriftChange, PinDrift, compare};
use crate::definition::{PinKey, PinKind, PinnedDefinition};
use crate::lint::{LintFinding, NameCensus, lint};
use crate::lock::LockFile;
use crate::policy::{LintMode, PinMode, PinPolicy};
use event::EventLimiter;
pub use event::{PinEvent, PinEventKind, PinObserver};
use lock_on_disk::LockOnDisk;
pub use lock_on_disk::PinStoreError;

/// What may write the lock file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PinWriting {
    /// First sights of servers whose mode is `tofu`, and orders.
    FirstSight,
    /// Only orders: for commands that show what differs.
    OnOrder,
}

/// Where an offer comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OfferSource {
    /// The server said it just now.
    Live,
    /// Another session or process of the server said it: what differs counts, what does not says nothing.
    Replica,
    /// It was remembered from an earlier run: it is judged, and neither written down nor reported.
    Remembered,
}

/// Whether callers get a definition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ItemVerdict {
    /// As the server offers it.
    Pass,
    /// The pinned definition, which cannot be used: the server offers another one.
    Keep(String),
    /// Nothing.
    Hide,
}

/// What callers get of an offer. What is not here passes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OfferVerdicts {
    held: HashMap<(PinKind, String), ItemVerdict>,
}

impl OfferVerdicts {
    pub fn of(&self, kind: PinKind, name: &str) -> &ItemVerdict {
        // The usual offer holds nothing back, and then no key is made.
        if self.held.is_empty() {
            return &ItemVerdict::Pass;
        }
        self.held.get(&(kind, name.to_owned())).unwrap_or(&ItemVerdict::Pass)
    }

    /// What is held back, with why.
    pub fn held(&self) -> impl Iterator<Item = (PinKind, &str, &ItemVerdict)> {
        self.held.iter().map(|((kind, name), verdict)| (*kind, name.as_str(), verdict))
    }

    pub fn is_clean(&self) -> bool {
        self.held.is_empty()
    }
}

/// What became of a difference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum DriftEffect {
    /// Callers see and use what the server offers.
    Passed,
    /// Callers see the pinned definition and cannot use it.
    Refused,
    /// Callers see nothing.
    Hidden,
}

/// A difference that waits for a decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PinReview {
    pub drift: PinDrift,
    pub findings: Vec<LintFinding>,
    pub effect: DriftEffect,
    /// The server that had this address first.
    pub claimed_from: Option<String>,
}

/// Why a difference cannot be accepted.
#[derive(Debug, thiserror::Error)]
pub enum AcceptError {
    #[error("{0} does not differ from its pin")]
    NothingToAccept(PinKey),
    #[error("{0} has changed again since it was shown")]
    ChangedAgain(PinKey),
    #[error(transparent)]
    Store(#[from] PinStoreError),
}

/// The pins of one configuration.
pub struct PinStore {
    writing: PinWriting,
    looks_at_commands: AtomicBool,
    state: Mutex<StoreState>,
    observer: OnceLock<Arc<dyn PinObserver>>,
}

struct StoreState {
    disk: LockOnDisk,
    /// What differs from its pin, until it is accepted or comes back.
    reviews: BTreeMap<PinKey, PinReview>,
    events: EventLimiter,
    /// The names of the tools that servers offer now.
    offered_tools: HashMap<String, BTreeSet<String>>,
    /// Whole offers, kept for orders that write them.
    offers: HashMap<String, DefinitionOffer>,
    /// The servers of the configuration; pins of others hold no addresses. `None` while it is not known.
    configured: Option<BTreeSet<String>>,
}

impl std::fmt::Debug for PinStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PinStore").field("path", &self.path()).finish_non_exhaustive()
    }
}

impl PinStore {
    /// Reads the lock file. One that does not exist pins nothing yet.
    pub fn open(path: impl Into<PathBuf>, writing: PinWriting) -> Result<Self, PinStoreError> {
        let state = StoreState {
            disk: LockOnDisk::open(path.into())?,
            reviews: BTreeMap::new(),
            events: EventLimiter::default(),
            offered_tools: HashMap::new(),
            offers: HashMap::new(),
            configured: None,
        };
        Ok(Self {
            writing,
            looks_at_commands: AtomicBool::new(false),
            state: Mutex::new(state),
            observer: OnceLock::new(),
        })
    }

    pub fn path(&self) -> PathBuf {
        self.state.lock().disk.path().to_owned()
    }

    /// Compares programs too where nothing is refused for them: reading one takes a moment, which a service has.
    pub fn look_at_commands(&self) {
        self.looks_at_commands.store(true, Ordering::Relaxed);
    }

    /// Whether the program of a server is read where nothing is refused for it: there must be a pin to compare with.
    pub fn looks_at_command(&self, server: &str) -> bool {
        let is_pinned = || self.with_lock(|lock| lock.has_list(server, PinKind::Command.list()));
        self.looks_at_commands.load(Ordering::Relaxed) && (self.writing == PinWriting::OnOrder || is_pinned())
    }

    /// Hands every event to `observer`, such as an audit trail. Only the first one is taken.
    pub fn set_observer(&self, observer: Arc<dyn PinObserver>) {
        let _ = self.observer.set(observer);
    }

    /// Says which servers are configured: an address is held only for one of them.
    pub fn set_servers(&self, servers: impl IntoIterator<Item = String>) {
        let servers: BTreeSet<String> = servers.into_iter().collect();
        let mut state = self.state.lock();
        state.reviews.retain(|key, _| servers.contains(&key.server));
        state.offered_tools.retain(|server, _| servers.contains(server));
        state.configured = Some(servers);
    }

    /// Reads the file again if it has changed. True when the pins differ now. A file that cannot be read leaves the pins
    /// as they are.
    pub fn reload(&self) -> Result<bool, PinStoreError> {
        self.state.lock().disk.reload()
    }

    /// Judges what a server offers. What is seen for the first time is pinned where the policy says so: in the file with
    /// `tofu`, until the end of this process with `warn`. Reads and writes the lock file, so it may block for a moment.
    pub fn judge(
        &self,
        server: &str,
        policy: PinPolicy,
        offer: &DefinitionOffer,
        source: OfferSource,
        now: Instant,
    ) -> OfferVerdicts {
        let mut events = Vec::new();
        let verdicts = {
            let mut state = self.state.lock();
            match self.writing {
                PinWriting::FirstSight => state.judge(server, policy, offer, source, now, &mut events),
                PinWriting::OnOrder => {
                    state.observe(server, policy, offer, source);
                    OfferVerdicts::default()
                }
            }
        };
        // Outside the lock: an observer may take its time, or ask us something.
        events.iter().for_each(|event| self.report(event));
        verdicts
    }

    fn report(&self, event: &PinEvent) {
        event.log();
        if let Some(observer) = self.observer.get() {
            observer.observe(event);
        }
    }

    /// What differs from its pin now, in the order of the lock file.
    pub fn reviews(&self) -> Vec<PinReview> {
        self.state.lock().reviews.values().cloned().collect()
    }

    /// Makes what a server offers now the pin of a thing. `seen` is the digest that was shown, `None` for a thing that is
    /// gone: what changed since then is not accepted. `by` says who decided, for the record.
    pub fn accept(&self, key: &PinKey, seen: Option<PinDigest>, by: &str) -> Result<(), AcceptError> {
        let event = {
            let mut state = self.state.lock();
            let Some(review) = state.reviews.get(key).cloned() else {
                return Err(AcceptError::NothingToAccept(key.clone()));
            };
            if seen != review.drift.new.as_ref().map(|new| new.digest) {
                return Err(AcceptError::ChangedAgain(key.clone()));
            }
            // With one thing its list counts as pinned, so the rest of a list that was only remembered goes with it.
            let rest = state.disk.remembered().list_of(key);
            state.disk.update(|lock| {
                lock.adopt_lists(&rest);
                match &review.drift.new {
                    Some(new) => lock.insert(key.clone(), new.clone()),
                    None => {
                        lock.remove(key);
                    }
                }
                lock.insert_list(&key.server, key.kind.list());
            })?;
            state.reviews.remove(key);
            state.events.forget(key);
            PinEvent::accepted(&review, by)
        };
        self.report(&event);
        Ok(())
    }

    /// Pins all that a server offers, in place of what was pinned. Returns how many things it has.
    pub fn lock_server(&self, server: &str, by: &str) -> Result<usize, PinStoreError> {
        let mut events = Vec::new();
        let count = {
            let mut state = self.state.lock();
            let Some(offer) = state.offers.get(server).cloned() else { return Ok(0) };
            state.disk.update(|lock| replace_pins(lock, server, &offer))?;
            let settled: Vec<PinKey> = state.reviews.keys().filter(|key| key.server == server).cloned().collect();
            for key in settled {
                events.extend(state.reviews.remove(&key).map(|review| PinEvent::accepted(&review, by)));
            }
            offer.iter().count()
        };
        events.iter().for_each(|event| self.report(event));
        Ok(count)
    }

    /// Forgets the pins of servers that are not among these. Returns those that were forgotten.
    pub fn prune(&self, servers: &[String]) -> Result<Vec<String>, PinStoreError> {
        let mut state = self.state.lock();
        let is_gone = |server: &&str| !servers.iter().any(|known| known == server);
        let gone: Vec<String> = state.disk.lock().servers().filter(is_gone).map(str::to_owned).collect();
        if !gone.is_empty() {
            state.disk.update(|lock| gone.iter().for_each(|server| lock.remove_server(server)))?;
        }
        Ok(gone)
    }

    /// What the lint says about all that a server offers.
    pub fn findings(&self, server: &str) -> Vec<(PinKey, LintFinding)> {
        let state = self.state.lock();
        let Some(offer) = state.offers.get(server) else { return Vec::new() };
        let census = state.census();
        let of = |(kind, name, definition): (PinKind, &str, &PinnedDefinition)| {
            let found = lint_definition(server, kind, name, definition, &census);
            found.into_iter().map(|finding| (PinKey::new(server, kind, name), finding)).collect::<Vec<_>>()
        };
        offer.iter().flat_map(of).collect()
    }

    /// Looks at the pins.
    pub fn with_lock<T>(&self, look: impl FnOnce(&LockFile) -> T) -> T {
        look(self.state.lock().disk.lock())
    }
}

impl StoreState {
    /// Compares without a consequence, for orders.
    fn observe(&mut self, server: &str, policy: PinPolicy, offer: &DefinitionOffer, source: OfferSource) {
        if source != OfferSource::Live {
            return;
        }
        self.remember_tools(server, offer);
        self.offers.entry(server.to_owned()).or_default().merge(offer);
        let census = self.census();
        let drifts = compare(self.disk.lock(), server, offer);
        let reviews: Vec<PinReview> = drifts.into_iter().map(|drift| self.review(drift, policy, &census)).collect();
        self.replace_reviews(server, offer, &reviews);
        self.reviews.extend(reviews.into_iter().map(|review| (review.drift.key.clone(), review)));
    }

    fn judge(
        &mut self,
        server: &str,
        policy: PinPolicy,
        offer: &DefinitionOffer,
        source: OfferSource,
        now: Instant,
        events: &mut Vec<PinEvent>,
    ) -> OfferVerdicts {
        if let Err(error) = self.disk.reload() {
            // The previous pins stay in force: a file that was damaged must not open the door.
            tracing::error!(target: "tsugi_pins", %error, "the lock file cannot be read: the previous pins stay in force");
        }
        self.remember_tools(server, offer);
        let drifts = compare(self.disk.lock(), server, offer);
        let mut verdicts = OfferVerdicts::default();
        let mut first_seen = Vec::new();
        let mut reviews = Vec::new();
        let census = if drifts.is_empty() { NameCensus::default() } else { self.census() };
        for drift in drifts {
            let review = self.review(drift, policy, &census);
            let list = review.drift.key.kind.list();
            let is_first = !self.disk.lock().has_list(server, list);
            if is_first && may_pin_unseen(&review, policy) {
                first_seen.push(review);
                continue;
            }
            if review.effect != DriftEffect::Passed {
                let key = (review.drift.key.kind, review.drift.key.name.clone());
                verdicts.held.insert(key, verdict(&review));
            }
            reviews.push(review);
        }
        if source == OfferSource::Remembered {
            return verdicts;
        }
        if source == OfferSource::Live && policy.mode.pins_first_sight() {
            self.pin_first_sight(server, policy.mode, offer, &first_seen, &reviews);
        }
        self.settle(server, offer, source, reviews, policy, now, events);
        for review in first_seen.iter().filter(|review| !review.findings.is_empty()) {
            if self.events.is_due(&review.drift.key, now) {
                events.push(PinEvent::lint(review, policy.mode));
            }
        }
        verdicts
    }

    fn remember_tools(&mut self, server: &str, offer: &DefinitionOffer) {
        if offer.lists().any(|list| list == PinKind::Tool.list()) {
            let tools = offer.iter().filter(|(kind, ..)| *kind == PinKind::Tool).map(|(_, name, _)| name.to_owned());
            self.offered_tools.insert(server.to_owned(), tools.collect());
        }
    }

    /// What is to be said about a difference, and what becomes of it.
    fn review(&self, drift: PinDrift, policy: PinPolicy, census: &NameCensus) -> PinReview {
        let PinKey { server, kind, name } = &drift.key;
        let findings = match &drift.new {
            Some(new) if policy.lint != LintMode::Off => lint_definition(server, *kind, name, new, census),
            _ => Vec::new(),
        };
        let claimed_from = self.owner_of_address(&drift);
        let is_held = policy.mode.is_strict() || policy.lint == LintMode::Quarantine && !findings.is_empty();
        let effect = match drift.change {
            DriftChange::Removed => DriftEffect::Passed,
            _ if !is_held => DriftEffect::Passed,
            DriftChange::Changed if drift.old.as_ref().is_some_and(|old| old.text.is_some()) => DriftEffect::Refused,
            _ => DriftEffect::Hidden,
        };
        PinReview { drift, findings, effect, claimed_from }
    }

    /// The other server for which an address is pinned that this one lists for the first time.
    fn owner_of_address(&self, drift: &PinDrift) -> Option<String> {
        let PinKey { server, kind, name } = &drift.key;
        if drift.change != DriftChange::Added || !matches!(kind, PinKind::Resource | PinKind::Template) {
            return None;
        }
        let is_configured = |owner: &str| self.configured.as_ref().is_none_or(|known| known.contains(owner));
        let mut owners = self.disk.lock().servers().filter(|owner| owner != server && is_configured(owner));
        owners.find(|owner| self.disk.lock().get(&PinKey::new(*owner, *kind, name)).is_some()).map(str::to_owned)
    }

    /// Pins what was seen first. A list counts as seen only once: what it gains later is an addition.
    fn pin_first_sight(
        &mut self,
        server: &str,
        mode: PinMode,
        offer: &DefinitionOffer,
        first_seen: &[PinReview],
        held: &[PinReview],
    ) {
        let unseen: Vec<&'static str> = offer.lists().filter(|list| !self.disk.lock().has_list(server, list)).collect();
        if unseen.is_empty() {
            return;
        }
        let pin = |lock: &mut LockFile| {
            for list in &unseen {
                // Another process may have been first: then its pins hold, and ours are additions to them.
                if lock.has_list(server, list) {
                    continue;
                }
                for (kind, name, definition) in offer.iter().filter(|(kind, ..)| kind.list() == *list) {
                    let key = PinKey::new(server, kind, name);
                    let is_held = held.iter().any(|review| review.drift.key == key);
                    if !is_held {
                        lock.insert(key, definition.clone());
                    }
                }
                lock.insert_list(server, list);
            }
        };
        let things = first_seen.len();
        // A file that people commit is not written without being asked for: `tofu` and `tsugi lock` ask.
        if mode != PinMode::Tofu {
            self.disk.remember(pin);
            tracing::debug!(target: "tsugi_pins", server, things, "remembered at first sight");
            return;
        }
        match self.disk.update(pin) {
            Ok(()) => tracing::debug!(target: "tsugi_pins", server, things, "pinned at first sight"),
            Err(error) => {
                self.disk.remember(pin);
                // Said once: a configuration in a read-only place would repeat it for every server.
                if self.disk.may_complain() {
                    let path = self.disk.path().display();
                    tracing::warn!(target: "tsugi_pins", %path, %error, "pins cannot be written: they hold until the end of this process");
                }
            }
        }
    }

    /// Replaces what is known to differ, and collects the events.
    #[allow(clippy::too_many_arguments)]
    fn settle(
        &mut self,
        server: &str,
        offer: &DefinitionOffer,
        source: OfferSource,
        reviews: Vec<PinReview>,
        policy: PinPolicy,
        now: Instant,
        events: &mut Vec<PinEvent>,
    ) {
        if source == OfferSource::Live {
            self.replace_reviews(server, offer, &reviews);
        }
        for review in reviews {
            let key = review.drift.key.clone();
            // Removing is no violation, so it is shown and not reported.
            let is_violation = review.drift.change != DriftChange::Removed;
            if is_violation && self.events.is_due(&key, now) {
                events.push(PinEvent::drift(&review, policy.mode));
            }
            self.reviews.insert(key, review);
        }
    }

    /// Forgets what differed and does not any more.
    fn replace_reviews(&mut self, server: &str, offer: &DefinitionOffer, reviews: &[PinReview]) {
        let lists: BTreeSet<&str> = offer.lists().collect();
        let is_looked_at = |key: &PinKey| key.server == server && lists.contains(key.kind.list());
        let is_still_there = |key: &PinKey| reviews.iter().any(|review| review.drift.key == *key);
        self.reviews.retain(|key, _| !is_looked_at(key) || is_still_there(key));
    }

    /// The names of all tools that are pinned or offered.
    fn census(&self) -> NameCensus {
        let mut census = NameCensus::default();
        let is_configured = |server: &str| self.configured.as_ref().is_none_or(|known| known.contains(server));
        for (key, _) in self.disk.lock().iter().filter(|(key, _)| key.kind == PinKind::Tool) {
            if is_configured(&key.server) {
                census.add(&key.server, &key.name);
            }
        }
        for (server, tools) in &self.offered_tools {
            tools.iter().for_each(|tool| census.add(server, tool));
        }
        census
    }
}

fn verdict(review: &PinReview) -> ItemVerdict {
    let old = review.drift.old.as_ref().and_then(|old| old.text.clone());
    match (review.effect, old) {
        (DriftEffect::Passed, _) => ItemVerdict::Pass,
        (DriftEffect::Refused, Some(old)) => ItemVerdict::Keep(old),
        _ => ItemVerdict::Hide,
    }
}

/// Whether something may be pinned because it is seen for the first time. Not what the lint holds back, and not an
/// address of another server where first sight means trust.
fn may_pin_unseen(review: &PinReview, policy: PinPolicy) -> bool {
    let is_suspicious = policy.lint == LintMode::Quarantine && !review.findings.is_empty();
    let is_claim = policy.mode == PinMode::Tofu && review.claimed_from.is_some();
    policy.mode.pins_first_sight() && !is_suspicious && !is_claim
}

fn replace_pins(lock: &mut LockFile, server: &str, offer: &DefinitionOffer) {
    let looked_at: BTreeSet<&str> = offer.lists().collect();
    let platform = crate::command_pin::platform();
    // A list that could not be fetched keeps its pins, and so does the program of another platform.
    let is_replaced =
        |key: &PinKey| looked_at.contains(key.kind.list()) && (key.kind != PinKind::Command || key.name == platform);
    let old: Vec<PinKey> = lock.of_server(server).map(|(key, _)| key.clone()).filter(is_replaced).collect();
    for key in &old {
        lock.remove(key);
    }
    for (kind, name, definition) in offer.iter() {
        lock.insert(PinKey::new(server, kind, name), definition.clone());
    }
    offer.lists().for_each(|list| lock.insert_list(server, list));
}

fn lint_definition(
    server: &str,
    kind: PinKind,
    name: &str,
    definition: &PinnedDefinition,
    census: &NameCensus,
) -> Vec<LintFinding> {
    let Some(value) = definition.value() else { return Vec::new() };
    if kind != PinKind::Command {
        return lint(server, kind, name, &value, census);
    }
    let words: Vec<String> = value["argv"]
        .as_array()
        .map(|words| words.iter().filter_map(|word| word.as_str().map(str::to_owned)).collect())
        .unwrap_or_default();
    let package = crate::command_pin::unversioned_package(&words).map(str::to_owned);
    let rule = crate::lint::LintRule::UnversionedPackage;
    package.map(|excerpt| LintFinding { rule, place: "/argv".into(), excerpt }).into_iter().collect()
}

/// The lock file that belongs to a configuration file: beside it, with the same stem.
pub fn lock_path(configuration: &Path) -> PathBuf {
    configuration.with_extension("lock")
}

#[cfg(test)]
mod tests;
