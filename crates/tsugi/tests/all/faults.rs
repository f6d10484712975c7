//! The rows of the fault matrix that need a real process: signals, reloads, full pipes, parents that die.

mod log;
mod own;
mod reload;
mod state;
mod stop;

/// How many of something: the small number, or the full one where `TSUGI_TEST_LONG` is set.
fn scaled(small: usize, full: usize) -> usize {
    if std::env::var_os("TSUGI_TEST_LONG").is_some() { full } else { small }
}
