//! The use-cases: one per tool and one per administrative act, each exactly one transaction.
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

/// Expired leases are looked for at most this often by the calls that care.
const SWEEP_EVERY: Duration = Duration::from_secs(5);
/// Notices that ride along with an answer.
const NOTICES_AT_ONCE: i64 = 3;

/// Whether an action changes anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ActionEffect {
    /// It only looks.
    Read,
    /// It changes something.
    Write,
    /// It only looks, but wants dead agents' work to be back first.
    ReadAfterSweep,
    /// It changes something, and wants dead agents' work to be back first.
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
    /// The tool's name.
    const NAME: &'static str;
    /// Whether it changes anything.
    const EFFECT: ActionEffect;
    /// What it answers.
    type Output: Serialize + DeserializeOwned + Send + 'static;

    /// The caller's key: the same key and arguments have one effect and the same answer.
    fn key(&self) -> Option<&str> {
        None
    }

    /// A task that a mere look at keeps the caller's lease on.
    fn touches(&self) -> Option<&TaskRef> {
        None
    }

    /// Does it, inside a transaction.
    fn run(&self, context: &mut ActionContext<'_, '_>) -> Result<Self::Output, PmFault>;
}

/// What an action answers, with its type left behind.
pub trait Output: Any + Send {
    /// The answer as JSON.
    fn to_json(&self) -> Value;
}

impl<T: Serialize + Any + Send> Output for T {
    fn to_json(&self) -> Value {
        serde_json::json!(self)
    }
}

/// What a deed does in a transaction: its answer, and whether the caller's lease could do with renewing.
type ActionRun = Box<dyn Fn(&mut Tx<'_>, &ActionCaller) -> Result<(Box<dyn Output>, bool), PmFault> + Send + Sync>;

/// An action with its type left behind, so that what is the same for all of them exists once in the program.
pub struct ErasedAction {
    effect: ActionEffect,
    touch: Option<TaskRef>,
    run: ActionRun,
}

impl ErasedAction {
    /// The deed of an action.
    pub fn of<A: Action>(action: A) -> Self {
        let key = action.key().map(str::to_owned);
        Self::with_idempotency_key(action, key)
    }

    /// The deed of an action that is done once under this key, whether or not the action has a place for one.
    pub fn with_idempotency_key<A: Action>(action: A, key: Option<String>) -> Self {
        let touch = action.touches().cloned();
        let run: ActionRun = Box::new(move |tx, caller| {
            let (output, is_renewal_due) = match A::EFFECT.is_write() {
                true => (write_once(tx, caller, &action, key.as_deref())?, false),
                false => look(tx, caller, &action)?,
            };
            Ok((Box::new(output) as Box<dyn Output>, is_renewal_due))
        });
        Self { effect: A::EFFECT, touch, run }
    }
}

/// Whether notices ride along with an answer.
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
    /// Opens the database.
    pub async fn open(options: StoreOptions) -> Result<Self, StoreOpenError> {
        Ok(Self::over(PmStore::open(options).await?))
    }

    /// Works on an open store.
    pub fn over(store: PmStore) -> Self {
        Self { store, last_sweep: Arc::new(Mutex::new(None)) }
    }

    /// The store underneath.
    pub fn store(&self) -> &PmStore {
        &self.store
    }

    /// Every event after `since_seq`, in order, as they come.
    pub fn subscribe(&self, since_seq: i64) -> EventFeed {
        self.store.subscribe(since_seq)
    }

    /// The number of the newest event: subscribing from here tells only what is new.
    pub async fn last_seq(&self) -> Result<i64, PmFault> {
        self.store.read(|tx| tx.event_last_seq()).await
    }

    /// Does one action for one caller.
    pub async fn perform<A: Action>(&self, caller: &ActionCaller, action: A) -> Result<A::Output, PmFault> {
        let (output, _) = self.perform_erased(caller, ErasedAction::of(action), NoticeDelivery::Left).await?;
        let output: Box<dyn Any> = output;
        Ok(*output.downcast().expect("an action answers its own output"))
    }

    /// Does one deed for one caller, and gives the few notices that ride along with the answer; each is shown at most
    /// twice. They are looked for in the same transaction, so that they cost no other.
    pub async fn perform_with_notices(
        &self,
        caller: &ActionCaller,
        deed: ErasedAction,
    ) -> Result<(Box<dyn Output>, Vec<Notice>), PmFault> {
        let (output, fresh) = self.perform_erased(caller, deed, NoticeDelivery::Shown).await?;
        if !fresh.is_empty() {
            let ids: Vec<i64> = fresh.iter().map(|notice| notice.id).collect();
            let counted = self.store.write(move |tx| ids.iter().try_for_each(|id| tx.notice_shown(*id))).await;
            if let Err(fault) = counted {
                // The deed is done and must be answered as done; at worst a notice is shown once more.
                tracing::warn!(%fault, "it could not be counted that notices were shown");
            }
        }
        Ok((output, fresh))
    }

    async fn perform_erased(
        &self,
        caller: &ActionCaller,
        deed: ErasedAction,
        notices: NoticeDelivery,
    ) -> Result<(Box<dyn Output>, Vec<Notice>), PmFault> {
        if deed.effect.wants_sweep() {
            self.sweep_before(deed.effect).await?;
        }
        let (effect, touch, looker) = (deed.effect, deed.touch.clone(), caller.clone());
        let caller = caller.clone();
        let work = move |tx: &mut Tx<'_>| {
            let (output, is_renewal_due) = (deed.run)(tx, &caller)?;
            Ok((output, notices.read_once(tx, &caller)?, is_renewal_due))
        };
        let done = if effect.is_write() { self.store.write(work).await } else { self.store.read(work).await };
        let (output, fresh, is_renewal_due) = done?;
        if let Some(task) = touch.filter(|_| is_renewal_due) {
            // The answer stands even if the lease could not be renewed; the next write will tell.
            let _ = self.store.write(move |tx| ActionContext::open(tx, &looker)?.renew_by_look(&task)).await;
        }
        Ok((output, fresh))
    }

    /// Brings back what dead agents held, a bounded amount at a time; answers how much.
    pub async fn sweep(&self) -> Result<sweep::SweepSummary, PmFault> {
        let caller = ActionCaller::operator();
        self.store.write(move |tx| write_once(tx, &caller, &SweepExpired::default(), None)).await
    }

    /// Sweeps if it was not done lately and there is anything to do: for a process that has a moment.
    pub async fn sweep_now_and_then(&self) -> Result<(), PmFault> {
        if self.is_sweep_due() { self.sweep_quietly().await } else { Ok(()) }
    }

    /// Sweeps before a deed. Who only looks hears an answer also where nothing can be written: the disk is full, or
    /// somebody holds the lock.
    async fn sweep_before(&self, effect: ActionEffect) -> Result<(), PmFault> {
        match self.sweep_now_and_then().await {
            Err(fault) if !effect.is_write() => {
                tracing::warn!(%fault, "what dead agents held could not be brought back");
                Ok(())
            }
            other => other,
        }
    }

    /// Whether a caller may know of an event: of its own deeds, and of what happens in its projects.
    pub async fn may_see(&self, caller: &ActionCaller, event: &HistoryEvent) -> bool {
        if caller.is_operator() || (event.project_id.is_none() && event.actor_agent_id.as_ref() == caller.agent_id()) {
            return true;
        }
        let Some(project) = &event.project_id else { return false };
        let (caller, project) = (caller.clone(), project.clone());
        self.store.read(move |tx| ActionContext::open(tx, &caller)?.role(&project)).await.is_ok()
    }

    /// Looks whether there is anything to sweep before taking the write lock; a read-only database is left alone.
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

/// Does a writing action, or repeats the answer it gave before under the same key.
fn write_once<A: Action>(
    tx: &mut Tx<'_>,
    caller: &ActionCaller,
    action: &A,
    key: Option<&str>,
) -> Result<A::Output, PmFault> {
    let mut context = ActionContext::open(tx, caller)?;
    let Some(key) = key else { return action.run(&mut context) };
    limit::chars("idempotency_key", key, 8, 128)?;
    let agent = caller.agent_id().map_or("operator", |id| id.as_str()).to_owned();
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
        return Err(PmFault::new(Code::IdempotencyConflict, format!("the key `{key}` was used with other arguments"))
            .hint("use a new key for a new call"));
    }
    serde_json::from_str(&earlier.result).map_err(|error| PmFault::internal(error.to_string()))
}

fn args_hash<A: Action>(action: &A) -> Result<String, PmFault> {
    let mut arguments = serde_json::to_value(action).map_err(|error| PmFault::internal(error.to_string()))?;
    if let Value::Object(fields) = &mut arguments {
        fields.remove("idempotency_key");
    }
    Ok(hex_digest(arguments.to_string().as_bytes()))
}
