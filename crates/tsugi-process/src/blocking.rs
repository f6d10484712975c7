//! Runs blocking work on a fresh thread, because the runtime panics when it cannot start one.

use std::{io, thread};

use tokio::{runtime::Handle, sync::oneshot};

/// Runs `work` on a thread of its own, inside the runtime's context.
///
/// A system that refuses a thread also refuses processes; that is an error to tell, not a reason to panic.
pub(crate) async fn run<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> io::Result<T> {
    let (sender, receiver) = oneshot::channel();
    let runtime = Handle::current();
    thread::Builder::new().name("tsugi-process".to_owned()).spawn(move || {
        let _context = runtime.enter();
        // The caller may be gone.
        let _ = sender.send(work());
    })?;
    receiver.await.map_err(|_| io::Error::other("the thread that worked aside has panicked"))
}

#[cfg(test)]
mod tests {
    #[tokio::test]
    async fn work_aside_gives_its_result() {
        assert_eq!(super::run(|| 1 + 1).await.unwrap(), 2);
    }
}
