//! Writes to a child: callers append to one buffer, and the caller that finds the pipe free writes it.
//!
//! With few calls in flight the caller itself writes, which saves a task switch. With many, a writer
//! task is woken, lets the others append (one yield), and writes all of it in one system call.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use tokio::io::Interest;
use tokio::net::unix::pipe::Sender;
use tokio::sync::Notify;
use tsugi_protocol::codec::framing::FramingKind;

use super::reader::SharedFraming;
use crate::error::TransportError;
use crate::link::FlushMode;

/// Above this many waiting bytes new calls wait.
const HIGH_WATER: usize = 1 << 20;
/// Above this many waiting bytes nothing is taken any more: the child does not read.
const FULL: usize = 64 << 20;

/// The sending half of a child's pipe. Cheap to clone.
#[derive(Debug, Clone)]
pub struct PipeWriter(Arc<PipeQueue>);

#[derive(Debug)]
struct PipeQueue {
    state: Mutex<PipeQueueState>,
    /// True while so much is waiting that new calls should wait too; asked before every call, so without a lock.
    is_congested: AtomicBool,
    framing: SharedFraming,
    wake: Notify,
    drained: Notify,
}

#[derive(Debug)]
struct PipeQueueState {
    /// Gone once the stream has ended, which closes the child's standard input.
    pipe: Option<Arc<Sender>>,
    waiting: Vec<u8>,
    /// True while the writer task has been woken and has not found the buffer empty yet.
    is_armed: bool,
    is_closing: bool,
}

impl PipeWriter {
    /// Takes the pipe and starts the task that writes what callers could not write themselves.
    pub(super) fn spawn(pipe: Sender, framing: SharedFraming) -> Self {
        let pipe = Arc::new(pipe);
        let state =
            PipeQueueState { pipe: Some(pipe.clone()), waiting: Vec::new(), is_armed: false, is_closing: false };
        let shared = Arc::new(PipeQueue {
            state: Mutex::new(state),
            is_congested: AtomicBool::new(false),
            framing,
            wake: Notify::new(),
            drained: Notify::new(),
        });
        tokio::spawn(run(shared.clone(), pipe));
        Self(shared)
    }

    pub(crate) fn send(&self, message: &[u8], flush: FlushMode) -> Result<(), TransportError> {
        let mut state = self.0.state.lock();
        if state.is_closing || state.pipe.is_none() {
            return Err(TransportError::closed());
        }
        // A child that does not read must not make us hold everything.
        if state.waiting.len() > FULL {
            return Err(TransportError::congested());
        }
        self.0.framing.kind().encode(message, &mut state.waiting);
        if state.waiting.len() > HIGH_WATER {
            self.0.is_congested.store(true, Ordering::Relaxed);
        }
        // The writer task is at work and takes this message with it.
        if state.is_armed {
            return Ok(());
        }
        if flush == FlushMode::Now {
            match state.write_inline() {
                Ok(true) => {
                    self.0.is_congested.store(false, Ordering::Relaxed);
                    return Ok(());
                }
                Ok(false) => {}
                Err(error) => {
                    drop(state);
                    // Callers that wait for room must learn that there will be none.
                    self.0.drained.notify_waiters();
                    return Err(error);
                }
            }
        }
        state.is_armed = true;
        drop(state);
        self.0.wake.notify_one();
        Ok(())
    }

    pub(crate) fn framing(&self) -> FramingKind {
        self.0.framing.kind()
    }

    pub(crate) fn begin_to_count(&self) -> bool {
        let mut state = self.0.state.lock();
        let framing = &self.0.framing;
        if framing.is_certain() || framing.kind() == FramingKind::ContentLength || !state.is_read() {
            return false;
        }
        framing.set(FramingKind::ContentLength);
        // Ends what the child may take for the beginning of its headers.
        state.waiting.extend_from_slice(b"\r\n\r\n");
        true
    }

    pub(crate) fn is_congested(&self) -> bool {
        self.0.is_congested.load(Ordering::Relaxed)
    }

    pub(crate) async fn ready(&self) {
        loop {
            // Registered before the check, so that no notification is missed in between.
            let drained = self.0.drained.notified();
            let is_waiting = {
                let state = self.0.state.lock();
                state.pipe.is_some() && state.waiting.len() > HIGH_WATER
            };
            if !is_waiting {
                return;
            }
            drained.await;
        }
    }

    /// Resolves when the child has closed its end, not when we close ours.
    pub(crate) async fn reader_closed(&self) {
        loop {
            let drained = self.0.drained.notified();
            let is_deaf = {
                let state = self.0.state.lock();
                state.pipe.is_none() && !state.is_closing
            };
            if is_deaf {
                return;
            }
            drained.await;
        }
    }

    pub(crate) fn close(&self) {
        let mut state = self.0.state.lock();
        state.is_closing = true;
        state.is_armed = true;
        drop(state);
        self.0.wake.notify_one();
    }
}

impl PipeQueueState {
    /// True when the child has read all that was sent to it.
    fn is_read(&self) -> bool {
        let unread = |pipe: &Arc<Sender>| rustix::io::ioctl_fionread(&**pipe).unwrap_or(0);
        self.waiting.is_empty() && self.pipe.as_ref().is_some_and(|pipe| unread(pipe) == 0)
    }

    /// Tries to write everything at once. `true` when nothing is left.
    fn write_inline(&mut self) -> Result<bool, TransportError> {
        let Some(pipe) = &self.pipe else { return Err(TransportError::closed()) };
        match pipe.try_write(&self.waiting) {
            Ok(written) if written == self.waiting.len() => {
                self.waiting.clear();
                Ok(true)
            }
            Ok(written) => {
                // The rest stays in order at the front.
                self.waiting.drain(..written);
                Ok(false)
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
            Err(_) => {
                self.pipe = None;
                Err(TransportError::closed())
            }
        }
    }
}

/// The writer task: sleeps until woken, then writes until the buffer is empty. It ends with the stream.
async fn run(shared: Arc<PipeQueue>, pipe: Arc<Sender>) {
    let mut batch = Vec::new();
    loop {
        tokio::select! {
            () = shared.wake.notified() => {}
            () = closed(&pipe) => return end(&shared),
        }
        // Let the callers that are just running append their messages too.
        tokio::task::yield_now().await;
        while let Some(pipe) = take_batch(&shared, &mut batch) {
            if write_all(&pipe, &batch).await.is_err() {
                end(&shared);
                return;
            }
            batch.clear();
            shared.drained.notify_waiters();
        }
        if shared.state.lock().is_closing {
            end(&shared);
            return;
        }
    }
}

/// Swaps the waiting bytes out; `None` when there are none, which disarms the task.
fn take_batch(shared: &PipeQueue, batch: &mut Vec<u8>) -> Option<Arc<Sender>> {
    let mut state = shared.state.lock();
    if state.waiting.is_empty() || state.pipe.is_none() {
        state.is_armed = false;
        return None;
    }
    std::mem::swap(&mut state.waiting, batch);
    shared.is_congested.store(false, Ordering::Relaxed);
    // A buffer that grew for one large message is not kept for ever.
    if state.waiting.capacity() > HIGH_WATER {
        state.waiting = Vec::new();
    }
    state.pipe.clone()
}

/// Resolves when the pipe has no reader any more.
async fn closed(pipe: &Sender) {
    while let Ok(ready) = pipe.ready(Interest::ERROR).await {
        if ready.is_error() {
            return;
        }
    }
}

async fn write_all(pipe: &Sender, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match pipe.try_write(bytes) {
            Ok(written) => bytes = &bytes[written..],
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => pipe.writable().await?,
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn end(shared: &PipeQueue) {
    let mut state = shared.state.lock();
    state.pipe = None;
    state.waiting = Vec::new();
    shared.is_congested.store(false, Ordering::Relaxed);
    drop(state);
    shared.drained.notify_waiters();
}
