//! The use-cases: one per tool and one per administrative act, each exactly one transaction.
//!
//! An action is a struct of its arguments. [`Pm::perform`] runs it: permission check, state check, row changes,
//! version, events and the idempotency record commit together or not at all. The protocol layer and the command only
//! read arguments into these structs and write answers out.

pub mod admin;
pub mod board;
pub mod caller;
pub mod claim;
pub mod context;
pub mod create;
pub mod cut;
pub mod desk;
pub mod edit;
pub mod export;
pub mod find;
pub mod found;
pub mod handoff;
pub mod health;
mod lease;
pub mod list;
pub mod look;
pub mod name;
pub mod people;
pub mod presence;
pub mod project;
mod ready;
pub mod session;
pub mod status;
pub mod sweep;
pub mod verify;
pub mod view;

use std::any::Any;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use self::caller::Caller;
use self::desk::Desk;
use self::sweep::Sweep;
use crate::domain::event::Event;
use crate::domain::fault::{Code, Fault};
use crate::domain::id::TaskRef;
use crate::domain::limit;
use crate::domain::notice::Notice;
use crate::store::feed::Feed;
use crate::store::tx::{Remembered, Tx, hex_digest};
use crate::store::{OpenError, Options, Store};

/// Expired leases are looked for at most this often by the calls that care.
const SWEEP_EVERY: Duration = Duration::from_secs(5);
/// Notices that ride along with an answer.
const NOTICES_AT_ONCE: i64 = 3;

/// Whether an action changes anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// It only looks.
    Read,
    /// It changes something.
    Write,
    /// It only looks, but wants dead agents' work to be back first.
    ReadAfterSweep,
    /// It changes something, and wants dead agents' work to be back first.
    WriteAfterSweep,
}

impl Effect {
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
    const EFFECT: Effect;
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
    fn run(&self, desk: &mut Desk<'_, '_>) -> Result<Self::Output, Fault>;
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
type Run = Box<dyn Fn(&mut Tx<'_>, &Caller) -> Result<(Box<dyn Output>, bool), Fault> + Send + Sync>;

/// An action with its type left behind, so that what is the same for all of them exists once in the program.
pub struct Deed {
    effect: Effect,
    touch: Option<TaskRef>,
    run: Run,
}

impl Deed {
    /// The deed of an action.
    pub fn of<A: Action>(action: A) -> Self {
        let key = action.key().map(str::to_owned);
        Self::keyed(action, key)
    }

    /// The deed of an action that is done once under this key, whether or not the action has a place for one.
    pub fn keyed<A: Action>(action: A, key: Option<String>) -> Self {
        let touch = action.touches().cloned();
        let run: Run = Box::new(move |tx, caller| {
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
enum Notices {
    Shown,
    Left,
}

impl Notices {
    fn look(self, tx: &mut Tx<'_>, caller: &Caller) -> Result<Vec<Notice>, Fault> {
        match (self, caller.agent_id()) {
            (Self::Shown, Some(agent)) => tx.notice_fresh(agent, NOTICES_AT_ONCE),
            _ => Ok(Vec::new()),
        }
    }
}

/// The project-management server without a protocol: a store, and the actions on it. Cheap to clone.
#[derive(Clone)]
pub struct Pm {
    store: Store,
    last_sweep: Arc<Mutex<Option<Instant>>>,
}

impl Pm {
    /// Opens the database.
    pub async fn open(options: Options) -> Result<Self, OpenError> {
        Ok(Self::over(Store::open(options).await?))
    }

    /// Works on an open store.
    pub fn over(store: Store) -> Self {
        Self { store, last_sweep: Arc::new(Mutex::new(None)) }
    }

    /// The store underneath.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Every event after `since_seq`, in order, as they come.
    pub fn subscribe(&self, since_seq: i64) -> Feed {
        self.store.subscribe(since_seq)
    }

    /// The number of the newest event: subscribing from here tells only what is new.
    pub async fn last_seq(&self) -> Result<i64, Fault> {
        self.store.read(|tx| tx.event_last_seq()).await
    }

    /// Does one action for one caller.
    pub async fn perform<A: Action>(&self, caller: &Caller, action: A) -> Result<A::Output, Fault> {
        let (output, _) = self.carry_out(caller, Deed::of(action), Notices::Left).await?;
        let output: Box<dyn Any> = output;
        Ok(*output.downcast().expect("an action answers its own output"))
    }

    /// Does one deed for one caller, and gives the few notices that ride along with the answer; each is shown at most
    /// twice. They are looked for in the same transaction, so that they cost no other.
    pub async fn perform_with_notices(
        &self,
        caller: &Caller,
        deed: Deed,
    ) -> Result<(Box<dyn Output>, Vec<Notice>), Fault> {
        let (output, fresh) = self.carry_out(caller, deed, Notices::Shown).await?;
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

    async fn carry_out(
        &self,
        caller: &Caller,
        deed: Deed,
        notices: Notices,
    ) -> Result<(Box<dyn Output>, Vec<Notice>), Fault> {
        if deed.effect.wants_sweep() {
            self.sweep_before(deed.effect).await?;
        }
        let (effect, touch, looker) = (deed.effect, deed.touch.clone(), caller.clone());
        let caller = caller.clone();
        let work = move |tx: &mut Tx<'_>| {
            let (output, is_renewal_due) = (deed.run)(tx, &caller)?;
            Ok((output, notices.look(tx, &caller)?, is_renewal_due))
        };
        let done = if effect.is_write() { self.store.write(work).await } else { self.store.read(work).await };
        let (output, fresh, is_renewal_due) = done?;
        if let Some(task) = touch.filter(|_| is_renewal_due) {
            // The answer stands even if the lease could not be renewed; the next write will tell.
            let _ = self.store.write(move |tx| Desk::open(tx, &looker)?.renew_by_look(&task)).await;
        }
        Ok((output, fresh))
    }

    /// Brings back what dead agents held, a bounded amount at a time; answers how much.
    pub async fn sweep(&self) -> Result<sweep::Swept, Fault> {
        let caller = Caller::operator();
        self.store.write(move |tx| write_once(tx, &caller, &Sweep::default(), None)).await
    }

    /// Sweeps if it was not done lately and there is anything to do: for a process that has a moment.
    pub async fn sweep_now_and_then(&self) -> Result<(), Fault> {
        if self.is_sweep_due() { self.sweep_quietly().await } else { Ok(()) }
    }

    /// Sweeps before a deed. Who only looks hears an answer also where nothing can be written: the disk is full, or
    /// somebody holds the lock.
    async fn sweep_before(&self, effect: Effect) -> Result<(), Fault> {
        match self.sweep_now_and_then().await {
            Err(fault) if !effect.is_write() => {
                tracing::warn!(%fault, "what dead agents held could not be brought back");
                Ok(())
            }
            other => other,
        }
    }

    /// Whether a caller may know of an event: of its own deeds, and of what happens in its projects.
    pub async fn may_see(&self, caller: &Caller, event: &Event) -> bool {
        if caller.is_operator() || (event.project_id.is_none() && event.actor_agent_id.as_ref() == caller.agent_id()) {
            return true;
        }
        let Some(project) = &event.project_id else { return false };
        let (caller, project) = (caller.clone(), project.clone());
        self.store.read(move |tx| Desk::open(tx, &caller)?.role(&project)).await.is_ok()
    }

    /// Looks whether there is anything to sweep before taking the write lock; a read-only database is left alone.
    async fn sweep_quietly(&self) -> Result<(), Fault> {
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

fn look<A: Action>(tx: &mut Tx<'_>, caller: &Caller, action: &A) -> Result<(A::Output, bool), Fault> {
    let mut desk = Desk::open(tx, caller)?;
    let output = action.run(&mut desk)?;
    let is_renewal_due = match action.touches() {
        Some(task) => desk.is_renewal_due(task)?,
        None => false,
    };
    Ok((output, is_renewal_due))
}

/// Does a writing action, or repeats the answer it gave before under the same key.
fn write_once<A: Action>(tx: &mut Tx<'_>, caller: &Caller, action: &A, key: Option<&str>) -> Result<A::Output, Fault> {
    let mut desk = Desk::open(tx, caller)?;
    let Some(key) = key else { return action.run(&mut desk) };
    limit::chars("idempotency_key", key, 8, 128)?;
    let agent = caller.agent_id().map_or("operator", |id| id.as_str()).to_owned();
    let args_hash = args_hash(action)?;
    if let Some(earlier) = desk.tx.idempotency_find(&agent, A::NAME, key)? {
        return repeat(&earlier, &args_hash, key);
    }
    let output = action.run(&mut desk)?;
    let result = serde_json::to_string(&output).map_err(|error| Fault::internal(error.to_string()))?;
    desk.tx.idempotency_add(&agent, A::NAME, key, &Remembered { args_hash, result })?;
    Ok(output)
}

fn repeat<T: DeserializeOwned>(earlier: &Remembered, args_hash: &str, key: &str) -> Result<T, Fault> {
    if earlier.args_hash != args_hash {
        return Err(Fault::new(Code::IdempotencyConflict, format!("the key `{key}` was used with other arguments"))
            .hint("use a new key for a new call"));
    }
    serde_json::from_str(&earlier.result).map_err(|error| Fault::internal(error.to_string()))
}

fn args_hash<A: Action>(action: &A) -> Result<String, Fault> {
    let mut arguments = serde_json::to_value(action).map_err(|error| Fault::internal(error.to_string()))?;
    if let Value::Object(fields) = &mut arguments {
        fields.remove("idempotency_key");
    }
    Ok(hex_digest(arguments.to_string().as_bytes()))
}
