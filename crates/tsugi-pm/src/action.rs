//! The use-cases: one per tool and one per administrative command, each exactly one transaction.
//!
//! An action is a struct of its arguments. [`Pm::perform`] runs it: permission check, state check, row changes,
//! version, events and the idempotency record commit together or not at all. The protocol layer and the command only
//! read arguments into these structs and write answers out.

pub mod action_context;
pub mod admin;
pub mod agent;
pub mod board;
pub mod caller;
pub mod claim;
pub mod context;
pub mod create;
pub mod edit;
pub mod export;
pub mod get_task;
pub mod handoff;
pub mod health;
pub mod init_project;
mod lease;
pub mod list;
pub mod name;
pub mod presence;
pub mod project;
mod ready;
pub mod search;
pub mod session;
pub mod status;
pub mod sweep;
pub mod truncate;
pub mod verify;
pub mod view;

use std::any::Any;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use self::action_context::ActionContext;
use self::caller::ActionCaller;
use self::sweep::SweepExpired;
use crate::domain::event::HistoryEvent;
use crate::domain::fault::{Code, PmFault};
use crate::domain::id::TaskRef;
use crate::domain::limit;
use crate::domain::notice::Notice;
use crate::store::feed::EventFeed;
use crate::store::tx::{RememberedAnswer, Tx, hex_digest};
use crate::store::{PmStore, StoreOpenError, StoreOptions};

/// How often calls that need current leases look for expired ones, at most.
const SWEEP_EVERY: Duration = Duration::from_secs(5);
/// Notices that are sent along with an answer.
const NOTICES_AT_ONCE: i64 = 3;

/// Whether an action changes anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ActionEffect {
    Read,
    Write,
    /// It only reads, after the work of dead agents was released.
    ReadAfterSweep,
    /// It writes, after the work of dead agents was released.
    WriteAfterSweep,
}

impl ActionEffect {
    const fn is_write(self) -> bool {
        matches!(self, Self::Write | Self::WriteAfterSweep)
    }

    const fn wants_sweep(self) -> bool {
        matches!(self, Self::ReadAfterSweep | Self::WriteAfterSweep)
    }
}

/// A use-case: its arguments, its name, and what it does.
pub trait Action: Serialize + DeserializeOwned + Send + Sync + 'static {
    const NAME: &'static str;
    /// Whether it changes anything.
    const EFFECT: ActionEffect;
    type Output: Serialize + DeserializeOwned + Send + 'static;

    /// The caller's key: the same key and arguments have one effect and the same answer.
    fn key(&self) -> Option<&str> {
        None
    }

    /// A task whose lease the caller keeps by reading it.
    fn touches(&self) -> Option<&TaskRef> {
        None
    }

    /// Runs inside a transaction.
    fn run(&self, context: &mut ActionContext<'_, '_>) -> Result<Self::Output, PmFault>;
}

/// What an action returns, with its type erased.
pub trait Output: Any + Send {
    /// The answer as JSON.
    fn to_json(&self) -> Value;
}

impl<T: Serialize + Any + Send> Output for T {
    fn to_json(&self) -> Value {
        serde_json::json!(self)
    }
}

/// What an action does in a transaction: its output, and whether the caller's lease should be renewed.
type ActionRun = Box<dyn Fn(&mut Tx<'_>, &ActionCaller) -> Result<(Box<dyn Output>, bool), PmFault> + Send + Sync>;

/// An action with its type erased, so that the code around it is compiled once and not once per action.
pub struct ErasedAction {
    effect: ActionEffect,
    touch: Option<TaskRef>,
    run: ActionRun,
}

impl ErasedAction {
    /// Erases the type of an action.
    pub fn of<A: Action>(action: A) -> Self {
        let key = action.key().map(str::to_owned);
        Self::with_idempotency_key(action, key)
    }

    /// The same for an action that is done once under this key, whether or not it has a field for one.
    pub fn with_idempotency_key<A: Action>(action: A, key: Option<String>) -> Self {
        // Read before the action moves into the closure.
        let touch = action.touches().cloned();
        let run: ActionRun = Box::new(move |tx, caller| {
            let (output, is_renewal_due) = match A::EFFECT.is_write() {
                // A write renews the lease itself, so only a read can leave it due.
                true => (write_once(tx, caller, &action, key.as_deref())?, false),
                false => look(tx, caller, &action)?,
            };
            Ok((Box::new(output) as Box<dyn Output>, is_renewal_due))
        });
        Self { effect: A::EFFECT, touch, run }
    }
}

/// Whether notices are sent along with an answer.
#[derive(Clone, Copy)]
enum NoticeDelivery {
    Shown,
    Left,
}

impl NoticeDelivery {
    fn read_once(self, tx: &mut Tx<'_>, caller: &ActionCaller) -> Result<Vec<Notice>, PmFault> {
        match (self, caller.agent_id()) {
            (Self::Shown, Some(agent)) => tx.notice_fresh(agent, NOTICES_AT_ONCE),
            _ => Ok(Vec::new()),
        }
    }
}

/// The project-management server without a protocol: a store, and the actions on it. Cheap to clone.
#[derive(Clone)]
pub struct Pm {
    store: PmStore,
    last_sweep: Arc<Mutex<Option<Instant>>>,
}

impl Pm {
    pub async fn open(options: StoreOptions) -> Result<Self, StoreOpenError> {
        Ok(Self::over(PmStore::open(options).await?))
    }

    /// Works on an open store.
    pub fn over(store: PmStore) -> Self {
        Self { store, last_sweep: Arc::new(Mutex::new(None)) }
    }

    pub fn store(&self) -> &PmStore {
        &self.store
    }

    /// Every event after `since_seq`, in order, as they are committed.
    pub fn subscribe(&self, since_seq: i64) -> EventFeed {
        self.store.subscribe(since_seq)
    }

    /// The number of the newest event: subscribing from here yields only new ones.
    pub async fn last_seq(&self) -> Result<i64, PmFault> {
        self.store.read(|tx| tx.event_last_seq()).await
    }

    /// Does one action for one caller.
    pub async fn perform<A: Action>(&self, caller: &ActionCaller, action: A) -> Result<A::Output, PmFault> {
        let (output, _) = self.perform_erased(caller, ErasedAction::of(action), NoticeDelivery::Left).await?;
        let output: Box<dyn Any> = output;
        // The erased output is the one that `of::<A>` boxed, so the type is known here.
        Ok(*output.downcast().expect("an action answers its own output"))
    }

    /// Performs an action and returns the few notices that go with the answer; each is shown at most twice. They are read
    /// in the same transaction, so they do not cost another.
    pub async fn perform_with_notices(
        &self,
        caller: &ActionCaller,
        action: ErasedAction,
    ) -> Result<(Box<dyn Output>, Vec<Notice>), PmFault> {
        let (output, fresh) = self.perform_erased(caller, action, NoticeDelivery::Shown).await?;
        if !fresh.is_empty() {
            let ids: Vec<i64> = fresh.iter().map(|notice| notice.id).collect();
            let counted = self.store.write(move |tx| ids.iter().try_for_each(|id| tx.notice_shown(*id))).await;
            if let Err(fault) = counted {
                // The action is committed and must be answered as done; at worst a notice is shown once more.
                tracing::warn!(%fault, "cannot record that notices were shown");
            }
        }
        Ok((output, fresh))
    }

    async fn perform_erased(
        &self,
        caller: &ActionCaller,
        action: ErasedAction,
        notices: NoticeDelivery,
    ) -> Result<(Box<dyn Output>, Vec<Notice>), PmFault> {
        // The sweep is a separate transaction: an action that is refused must not undo it.
        if action.effect.wants_sweep() {
            self.sweep_before(action.effect).await?;
        }
        let (effect, touch, looker) = (action.effect, action.touch.clone(), caller.clone());
        let caller = caller.clone();
        let work = move |tx: &mut Tx<'_>| {
            let (output, is_renewal_due) = (action.run)(tx, &caller)?;
            Ok((output, notices.read_once(tx, &caller)?, is_renewal_due))
        };
        let done = if effect.is_write() { self.store.write(work).await } else { self.store.read(work).await };
        let (output, fresh, is_renewal_due) = done?;
        if let Some(task) = touch.filter(|_| is_renewal_due) {
            // The answer stands even if the lease could not be renewed; the next write will report it.
            let _ = self.store.write(move |tx| ActionContext::open(tx, &looker)?.renew_by_look(&task)).await;
        }
        Ok((output, fresh))
    }

    /// Releases what dead agents held, a bounded amount at a time; returns how much.
    pub async fn sweep(&self) -> Result<sweep::SweepSummary, PmFault> {
        let caller = ActionCaller::operator();
        self.store.write(move |tx| write_once(tx, &caller, &SweepExpired::default(), None)).await
    }

    /// Sweeps if that is due and there is anything to release.
    pub async fn sweep_now_and_then(&self) -> Result<(), PmFault> {
        if self.is_sweep_due() { self.sweep_quietly().await } else { Ok(()) }
    }

    /// Sweeps before an action. A read is answered even when nothing can be written because the disk is full or another
    /// process holds the lock.
    async fn sweep_before(&self, effect: ActionEffect) -> Result<(), PmFault> {
        match self.sweep_now_and_then().await {
            Err(fault) if !effect.is_write() => {
                tracing::warn!(%fault, "cannot release what dead agents held");
                Ok(())
            }
            other => other,
        }
    }

    /// Whether a caller may see an event: one of its own, or one of its projects.
    pub async fn may_see(&self, caller: &ActionCaller, event: &HistoryEvent) -> bool {
        if caller.is_operator() || (event.project_id.is_none() && event.actor_agent_id.as_ref() == caller.agent_id()) {
            return true;
        }
        // An event without a project, such as a new agent, is shown only to its actor.
        let Some(project) = &event.project_id else { return false };
        let (caller, project) = (caller.clone(), project.clone());
        self.store.read(move |tx| ActionContext::open(tx, &caller)?.role(&project)).await.is_ok()
    }

    /// Checks whether there is anything to sweep before taking the write lock; skips a read-only database.
    async fn sweep_quietly(&self) -> Result<(), PmFault> {
        if self.store.read(sweep::is_anything_due).await? {
            match self.sweep().await {
                Err(fault) if fault.code == Code::StorageReadonly => {}
                other => drop(other?),
            }
        }
        Ok(())
    }

    fn is_sweep_due(&self) -> bool {
        let mut last = self.last_sweep.lock();
        // Taken at once, so that two callers do not both sweep.
        let is_due = last.is_none_or(|at| at.elapsed() >= SWEEP_EVERY);
        if is_due {
            *last = Some(Instant::now());
        }
        is_due
    }
}

fn look<A: Action>(tx: &mut Tx<'_>, caller: &ActionCaller, action: &A) -> Result<(A::Output, bool), PmFault> {
    let mut context = ActionContext::open(tx, caller)?;
    let output = action.run(&mut context)?;
    let is_renewal_due = match action.touches() {
        Some(task) => context.is_renewal_due(task)?,
        None => false,
    };
    Ok((output, is_renewal_due))
}

/// Runs a writing action, or repeats the answer it gave before under the same key.
fn write_once<A: Action>(
    tx: &mut Tx<'_>,
    caller: &ActionCaller,
    action: &A,
    key: Option<&str>,
) -> Result<A::Output, PmFault> {
    let mut context = ActionContext::open(tx, caller)?;
    let Some(key) = key else { return action.run(&mut context) };
    // Short keys collide by accident.
    limit::chars("idempotency_key", key, 8, 128)?;
    let agent = caller.agent_id().map_or("operator", |id| id.as_str()).to_owned();
    // Only the digest is stored: arguments may be long and may hold secrets.
    let args_hash = args_hash(action)?;
    if let Some(earlier) = context.tx.idempotency_find(&agent, A::NAME, key)? {
        return repeat(&earlier, &args_hash, key);
    }
    let output = action.run(&mut context)?;
    let result = serde_json::to_string(&output).map_err(|error| PmFault::internal(error.to_string()))?;
    context.tx.idempotency_add(&agent, A::NAME, key, &RememberedAnswer { args_hash, result })?;
    Ok(output)
}

fn repeat<T: DeserializeOwned>(earlier: &RememberedAnswer, args_hash: &str, key: &str) -> Result<T, PmFault> {
    if earlier.args_hash != args_hash {
        return Err(PmFault::new(
            Code::IdempotencyConflict,
            format!("idempotency key `{key}` was used with other arguments"),
        )
        .hint("use a new key for a new call"));
    }
    serde_json::from_str(&earlier.result).map_err(|error| PmFault::internal(error.to_string()))
}

fn args_hash<A: Action>(action: &A) -> Result<String, PmFault> {
    let mut arguments = serde_json::to_value(action).map_err(|error| PmFault::internal(error.to_string()))?;
    if let Value::Object(fields) = &mut arguments {
        // The key itself is left out of the comparison.
        fields.remove("idempotency_key");
    }
    Ok(hex_digest(arguments.to_string().as_bytes()))
}
