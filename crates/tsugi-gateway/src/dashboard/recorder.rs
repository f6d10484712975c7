//! What happened lately: the last calls and each server's numbers, for the dashboard.
//!
//! Every call pays for one lock, a few counters and one slot of a ring; nothing is written out, and nothing is
//! allocated unless the call failed or everything is recorded.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;
use tsugi_protocol::answer::{Call, Outcome};

use super::client_names::ClientNames;
use super::payload::{CallPayload, PayloadRing, RecordMode};
use super::record::{CallEnding, CallRecord, CallStart, problem_of};
use super::series::{CallNumbers, CallSeries, ChartPoint};
use crate::guard::AccessGuard;

/// How many calls are remembered.
const CALLS: usize = 8192;
/// How many failed calls are remembered for longer, so that many good ones do not sweep them away.
const FAILURES: usize = 1024;
/// How many calls are searched at once.
const PORTION: u64 = 256;
/// How many servers have numbers of their own; the others share one more.
const SERVERS: usize = 1024;

/// Remembers calls.
pub struct CallRecorder {
    started: Instant,
    /// The wall clock at the start, in milliseconds since 1970.
    began: u64,
    pages: AtomicUsize,
    clients: ClientNames,
    /// What is to be recorded, and who decides where the configuration does not. Set once, when the gateway starts.
    recording: OnceLock<(Option<RecordMode>, Arc<AccessGuard>)>,
    book: Mutex<CallHistory>,
}

struct CallHistory {
    /// How many calls were ever recorded; also the id of the next.
    next: u64,
    /// The call with id `n` is at `n % CALLS`.
    calls: Vec<CallRecord>,
    /// The last failed calls, oldest first; the newest of them are in the ring too.
    failures: VecDeque<CallRecord>,
    /// The first is of all servers together.
    series: Vec<CallSeries>,
    places: HashMap<Arc<str>, ServerSlot>,
    payloads: PayloadRing,
}

/// Where a server's numbers are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ServerSlot(usize);

/// An open page: while there is one, calls are watched more closely.
pub(crate) struct OpenPageGuard(Arc<CallRecorder>);

impl Drop for OpenPageGuard {
    fn drop(&mut self) {
        self.0.pages.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Default for CallRecorder {
    fn default() -> Self {
        let began = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_millis() as u64);
        // The system gives the memory as it is used, so that no call has to wait while the ring grows.
        let calls = Vec::with_capacity(CALLS);
        let book = CallHistory {
            next: 0,
            calls,
            failures: VecDeque::new(),
            series: vec![CallSeries::new(0)],
            places: HashMap::new(),
            payloads: PayloadRing::default(),
        };
        Self {
            started: Instant::now(),
            began,
            pages: AtomicUsize::new(0),
            clients: ClientNames::default(),
            recording: OnceLock::new(),
            book: Mutex::new(book),
        }
    }
}

impl CallRecorder {
    /// Records arguments and results as `mode` says. Without it, those of failed calls while everyone may call.
    pub(crate) fn set_recording(&self, mode: Option<RecordMode>, guard: Arc<AccessGuard>) {
        // A gateway is started once with its recorder.
        let _ = self.recording.set((mode, guard));
    }

    /// Which arguments and results are recorded now. Keys can be added while the gateway runs.
    pub(super) fn mode(&self) -> RecordMode {
        match self.recording.get() {
            Some((Some(mode), _)) => *mode,
            Some((None, guard)) if !guard.asks_for_keys() => RecordMode::Errors,
            _ => RecordMode::Off,
        }
    }

    /// Adds to a call that begins which program sent it, and what it was given where that may be recorded.
    pub(crate) fn describe(&self, started: &mut CallStart, call: &Call) {
        started.client = self.clients.label(call.meta.client.info.as_ref());
        if self.mode() != RecordMode::Off {
            started.arguments = call.params.get("arguments");
        }
    }

    /// What a call was given and returned, where it was recorded.
    pub(super) fn payload(&self, id: u64) -> Option<CallPayload> {
        self.book.lock().payloads.get(id).cloned()
    }

    /// Where the calls of a server are counted.
    pub(crate) fn place(&self, server: &Arc<str>) -> ServerSlot {
        let second = self.second(Instant::now());
        let mut book = self.book.lock();
        if let Some(place) = book.places.get(server) {
            return *place;
        }
        if book.series.len() <= SERVERS {
            book.series.push(CallSeries::new(second));
        }
        // When the table is full, this is the last series, which all further servers share.
        let place = ServerSlot(book.series.len() - 1);
        if book.places.len() < SERVERS {
            book.places.insert(server.clone(), place);
        }
        place
    }

    /// Records a call that ended: with an outcome, or because its caller went away. Gives how long it took.
    pub(crate) fn record(&self, place: ServerSlot, mut started: CallStart, outcome: Option<&Outcome>) -> Duration {
        let now = Instant::now();
        let took = now.duration_since(started.at);
        let (ended, bytes) = CallEnding::of(outcome);
        // Taken out in any case: the ring must not keep the bytes of requests alive.
        let arguments = started.arguments.take();
        let is_wanted = match self.mode() {
            RecordMode::Off => false,
            RecordMode::Errors => ended.is_error(),
            RecordMode::All => true,
        };
        let payload = is_wanted.then(|| CallPayload::new(arguments.as_ref(), outcome));
        let record = CallRecord {
            // `push` sets the id, under the lock.
            id: 0,
            at: self.began + started.at.saturating_duration_since(self.started).as_millis() as u64,
            micros: took.as_micros() as u64,
            ended,
            bytes: bytes as u64,
            problem: outcome.and_then(problem_of),
            started,
        };
        let second = self.second(now);
        // All calls share the lock, so the record is complete before it is taken.
        let is_error = ended.is_error();
        let mut book = self.book.lock();
        book.series[0].add(second, record.micros, is_error);
        book.series[place.0].add(second, record.micros, is_error);
        book.push(record, payload);
        took
    }

    fn second(&self, now: Instant) -> u64 {
        now.saturating_duration_since(self.started).as_secs()
    }

    /// Milliseconds since 1970, by the same clock as everything that is shown.
    pub(crate) fn now(&self) -> u64 {
        self.began + self.started.elapsed().as_millis() as u64
    }

    /// When the gateway started, in milliseconds since 1970.
    pub(crate) fn began(&self) -> u64 {
        self.began
    }

    /// Watches calls more closely for as long as the result lives.
    pub(crate) fn watch(self: &Arc<Self>) -> OpenPageGuard {
        self.pages.fetch_add(1, Ordering::Relaxed);
        OpenPageGuard(self.clone())
    }

    /// Whether a page is open.
    pub(crate) fn is_watched(&self) -> bool {
        self.pages.load(Ordering::Relaxed) > 0
    }

    /// How many pages are open.
    pub(crate) fn pages(&self) -> usize {
        self.pages.load(Ordering::Relaxed)
    }

    /// How a server does now; all of them together without a name.
    pub(crate) fn numbers(&self, server: Option<&str>) -> CallNumbers {
        let second = self.second(Instant::now());
        self.with_series(server, |series| series.numbers(second)).unwrap_or_else(no_numbers)
    }

    /// The chart of a server; of all of them together without a name.
    pub(super) fn points(&self, server: Option<&str>) -> Vec<ChartPoint> {
        let second = self.second(Instant::now());
        self.with_series(server, |series| series.points(second, self.began)).unwrap_or_default()
    }

    fn with_series<T>(&self, server: Option<&str>, read: impl FnOnce(&mut CallSeries) -> T) -> Option<T> {
        let mut book = self.book.lock();
        let place = match server {
            None => ServerSlot(0),
            Some(name) => *book.places.get(name)?,
        };
        book.series.get_mut(place.0).map(read)
    }

    /// The id that the next call will have.
    pub(crate) fn next_id(&self) -> u64 {
        self.book.lock().next
    }

    /// The newest calls before `before` that are `wanted`, newest first, at most `limit`; and how many there are.
    pub(super) fn find(
        &self,
        before: Option<u64>,
        limit: usize,
        wanted: impl Fn(&CallRecord) -> bool,
    ) -> (Vec<CallRecord>, usize) {
        let mut end = before.unwrap_or(u64::MAX).min(self.next_id());
        let (mut found, mut total) = (Vec::new(), 0);
        loop {
            // In portions, so that calls need not wait for a search.
            let book = self.book.lock();
            let first = book.first();
            let begin = end.saturating_sub(PORTION).max(first);
            let is_last = begin >= end || begin == first;
            // Failures that left the ring are older than everything in it, so they come last.
            let older = book.failures.iter().rev().filter(|record| is_last && record.id < first.min(end));
            let portion = (begin..end).rev().map(|id| book.get(id)).chain(older);
            for record in portion.filter(|record| wanted(record)) {
                total += 1;
                if found.len() < limit {
                    found.push(record.clone());
                }
            }
            if is_last {
                return (found, total);
            }
            end = begin;
        }
    }

    /// One call.
    pub(super) fn call(&self, id: u64) -> Option<CallRecord> {
        let book = self.book.lock();
        match (book.first()..book.next).contains(&id) {
            true => Some(book.get(id).clone()),
            false => book.failures.iter().find(|call| call.id == id).cloned(),
        }
    }

    /// The calls from `since` on, oldest first, but only the newest `limit`; how many were left out; and where to
    /// go on.
    pub(super) fn since(&self, since: u64, limit: usize) -> (Vec<CallRecord>, u64, u64) {
        let book = self.book.lock();
        let first = since.max(book.first()).max(book.next.saturating_sub(limit as u64));
        let calls = (first..book.next).map(|id| book.get(id).clone()).collect();
        (calls, first.saturating_sub(since), book.next)
    }
}

fn no_numbers() -> CallNumbers {
    CallNumbers { spark: vec![0; super::series::SHOWN_SECONDS as usize], ..CallNumbers::default() }
}

impl CallHistory {
    fn push(&mut self, mut record: CallRecord, payload: Option<CallPayload>) {
        record.id = self.next;
        if let Some(payload) = payload {
            self.payloads.push(record.id, payload);
        }
        if record.ended.is_error() {
            if self.failures.len() == FAILURES {
                self.failures.pop_front();
            }
            // The copy outlives the slot in the ring.
            self.failures.push_back(record.clone());
        }
        match self.calls.get_mut(self.next as usize % CALLS) {
            Some(slot) => *slot = record,
            None => self.calls.push(record),
        }
        self.next += 1;
    }

    /// The id of the oldest call that is remembered.
    fn first(&self) -> u64 {
        self.next - self.calls.len() as u64
    }

    fn get(&self, id: u64) -> &CallRecord {
        &self.calls[id as usize % CALLS]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tsugi_protocol::answer::{Fault, FaultCode};
    use tsugi_protocol::json::{JsonObject, RawJson};

    fn started(tool: &str) -> CallStart {
        CallStart::now("files".into(), tool.into(), &Call::tool(tool, None))
    }

    fn recorder(calls: usize) -> Arc<CallRecorder> {
        let recorder = Arc::new(CallRecorder::default());
        let place = recorder.place(&"files".into());
        let done = Outcome::complete(JsonObject::from(serde_json::json!({"content": []})));
        (0..calls).for_each(|index| _ = recorder.record(place, started(&format!("t{index}")), Some(&done)));
        recorder
    }

    #[test]
    fn the_last_calls_are_remembered_and_no_more() {
        let recorder = recorder(CALLS + 10);
        let (calls, total) = recorder.find(None, 5, |_| true);
        assert_eq!((calls.len(), total), (5, CALLS));
        assert_eq!(calls[0].id, CALLS as u64 + 9);
        assert!(recorder.call(9).is_none() && recorder.call(10).is_some());
        assert_eq!(recorder.book.lock().calls.len(), CALLS);
    }

    #[test]
    fn failed_calls_are_remembered_for_longer() {
        let recorder = recorder(0);
        let place = recorder.place(&"files".into());
        let fault = || Outcome::fault(Fault::new(FaultCode::Timeout, "too slow"));
        let done = Outcome::complete(JsonObject::from(serde_json::json!({"content": []})));
        (0..FAILURES + 3).for_each(|_| _ = recorder.record(place, started("bad"), Some(&fault())));
        (0..CALLS - 1).for_each(|_| _ = recorder.record(place, started("good"), Some(&done)));
        let (failed, total) = recorder.find(None, 2, |call| call.ended == CallEnding::Failed);
        assert_eq!((failed[0].id, failed[1].id, total), (FAILURES as u64 + 2, FAILURES as u64 + 1, FAILURES));
        assert_eq!(recorder.find(Some(5), 9, |_| true).0.iter().map(|call| call.id).collect::<Vec<_>>(), [4, 3]);
        assert!(recorder.call(3).is_some() && recorder.call(2).is_none());
    }

    #[test]
    fn a_slow_reader_hears_how_much_it_missed() {
        let recorder = recorder(250);
        let (calls, dropped, next) = recorder.since(0, 100);
        assert_eq!((calls.len(), dropped, next), (100, 150, 250));
        assert_eq!((calls[0].id, calls[99].id), (150, 249));
        assert_eq!(recorder.since(next, 100), (Vec::new(), 0, 250));
    }

    #[test]
    fn how_a_call_ended_is_told_without_what_it_said() {
        let recorder = recorder(0);
        let place = recorder.place(&"files".into());
        let broken =
            JsonObject::from(serde_json::json!({"isError": true, "content": [{"type": "text", "text": "pa55"}]}));
        recorder.record(place, started("a"), Some(&Outcome::complete(broken)));
        let fault = Fault::new(FaultCode::Timeout, "too slow").with_details(RawJson::literal("{\"n\":1}"));
        recorder.record(place, started("b"), Some(&Outcome::fault(fault)));
        recorder.record(place, started("c"), None);
        let words: Vec<&str> = recorder.find(None, 9, |_| true).0.iter().map(|call| call.ended.as_str()).collect();
        assert_eq!(words, ["cancelled", "failed", "tool-error"]);
        assert!(!format!("{:?}", recorder.find(None, 9, |_| true).0).contains("pa55"));
        let numbers = recorder.numbers(Some("files"));
        assert_eq!(numbers.calls, 3);
        assert!((numbers.error_rate - 2.0 / 3.0).abs() < 1e-9);
        assert_eq!(recorder.numbers(Some("nobody")).spark.len(), 60);
    }

    #[test]
    fn servers_beyond_the_bound_share_one_place() {
        let recorder = CallRecorder::default();
        let places: Vec<ServerSlot> =
            (0..SERVERS + 5).map(|index| recorder.place(&format!("s{index}").into())).collect();
        assert_ne!(places[0], places[1]);
        assert_eq!(places[SERVERS + 1], places[SERVERS + 4]);
        assert!(recorder.book.lock().series.len() <= SERVERS + 1);
    }
}
