//! Prompts on the terminal: forms, addresses, and single missing values.

pub(crate) mod form;
mod format;
mod prompt;

use std::io;
use std::sync::OnceLock;

use rustix::termios::{OptionalActions, Termios, tcgetattr, tcsetattr};
use serde_json::{Map, Value};

use crate::failure::CommandFailure;
use form::{FormField, QuestionForm};
use prompt::TerminalPrompt;

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum UserReaction {
    /// Answered it; a form has content.
    Accept(Option<Map<String, Value>>),
    Decline,
    /// Did not want to choose.
    Cancel,
}

/// The terminal settings before the first prompt.
static BEFORE: OnceLock<Termios> = OnceLock::new();

/// Runs a dialogue on a thread of its own, since reading a terminal blocks. A person who presses Ctrl-C interrupts
/// the command.
pub(crate) async fn blocking<T: Send + 'static>(
    dialogue: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T, CommandFailure> {
    if let Ok(state) = tcgetattr(io::stdin()) {
        let _ = BEFORE.set(state);
    }
    match tokio::task::spawn_blocking(dialogue).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(error)) if error.kind() == io::ErrorKind::Interrupted => Err(CommandFailure::Interrupted),
        Ok(Err(error)) => Err(CommandFailure::usage(format!("the terminal cannot be read: {error}"))),
        Err(error) => Err(CommandFailure::usage(format!("the terminal cannot be read: {error}"))),
    }
}

/// Restores the terminal settings, even after an interrupted prompt.
pub(crate) fn restore() {
    if let Some(before) = BEFORE.get() {
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, before);
        let _ = dialoguer::console::Term::stderr().show_cursor();
    }
}

/// A server's form, filled in field by field.
pub(crate) fn fill_in(server: &str, message: &str, form: &QuestionForm) -> io::Result<UserReaction> {
    let prompt = TerminalPrompt::new();
    prompt.say(&format!("{server} asks: {message}"))?;
    match prompt.consent(if form.fields.is_empty() { "agree" } else { "answer" })? {
        UserReaction::Accept(_) => Ok(UserReaction::Accept(Some(prompt.fields(&form.fields)?))),
        refused => Ok(refused),
    }
}

/// An address that the server wants visited. It is shown in full and never opened by itself
/// ([Safe URL Handling](https://modelcontextprotocol.io/specification/2025-11-25/client/elicitation#safe-url-handling)).
pub(crate) fn visit(server: &str, message: &str, url: &str) -> io::Result<UserReaction> {
    let prompt = TerminalPrompt::new();
    prompt.say(&format!("{server} asks: {message}\nPlease visit {url}"))?;
    prompt.consent("go on")
}

/// A question of our own; `accept` is the word for yes.
pub(crate) fn confirm(question: &str, accept: &str) -> io::Result<UserReaction> {
    let prompt = TerminalPrompt::new();
    prompt.say(question)?;
    prompt.consent(accept)
}

/// Values of the fields, asked one by one.
pub(crate) fn ask(fields: &[FormField]) -> io::Result<Map<String, Value>> {
    TerminalPrompt::new().fields(fields)
}
