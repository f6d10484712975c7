//! Output: data to stdout, messages to stderr, colours and progress only on a terminal.

pub(crate) mod progress;
pub(crate) mod style;
pub(crate) mod table;

use std::io::{self, IsTerminal, Write};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde::Serialize;

use crate::config::env::{CLICOLOR_FORCE, Environment, NO_COLOR};
use progress::ProgressLine;
use style::TextPaint;
use table::TextTable;

use crate::lossy_stderr::LossyStderr;

/// How long a message waits for a stuck reader. A service must still be able to stop.
const PATIENCE: Duration = Duration::from_secs(1);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OutputFormat {
    /// For people.
    Text,
    /// `--json`: data only, for programs.
    Json,
}

pub(crate) struct CommandOutput {
    form: OutputFormat,
    data: OutputStream,
    talk: OutputStream,
}

pub(crate) struct OutputStream {
    writer: Mutex<Box<dyn Write + Send>>,
    /// Whether it is a terminal.
    watched: bool,
    paint: TextPaint,
}

impl OutputStream {
    pub(crate) fn new(writer: Box<dyn Write + Send>, watched: bool, environment: &Environment) -> Self {
        OutputStream { writer: Mutex::new(writer), watched, paint: TextPaint::new(wants_colour(environment, watched)) }
    }

    fn write(&self, text: &str) -> io::Result<()> {
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        writer.write_all(text.as_bytes())?;
        // Every piece of output ends its line, so that the next one begins at the margin.
        if !text.ends_with('\n') {
            writer.write_all(b"\n")?;
        }
        writer.flush()
    }
}

/// `NO_COLOR` wins, then `CLICOLOR_FORCE`, then whether it is a terminal with colours.
fn wants_colour(environment: &Environment, watched: bool) -> bool {
    // "0" means off, as the CLICOLOR convention has it.
    let forced = environment.filled(CLICOLOR_FORCE.name).is_some_and(|value| value != "0");
    // A dumb terminal would print the escape codes as text.
    let dumb = environment.get("TERM") == Some("dumb");
    environment.filled(NO_COLOR.name).is_none() && (forced || (watched && !dumb))
}

impl CommandOutput {
    pub(crate) fn of_process(form: OutputFormat, environment: &Environment) -> Self {
        let data = OutputStream::new(Box::new(io::stdout()), io::stdout().is_terminal(), environment);
        // Unbuffered, so that messages and log lines keep their order.
        let talk = OutputStream::new(Box::new(LossyStderr::new(PATIENCE)), io::stderr().is_terminal(), environment);
        CommandOutput::new(form, data, talk)
    }

    pub(crate) fn new(form: OutputFormat, data: OutputStream, talk: OutputStream) -> Self {
        CommandOutput { form, data, talk }
    }

    pub(crate) fn form(&self) -> OutputFormat {
        self.form
    }

    /// Whether a person can be prompted.
    pub(crate) fn is_interactive(&self) -> bool {
        self.talk.watched && self.form == OutputFormat::Text && io::stdin().is_terminal()
    }

    /// Prints data. On a terminal, control characters are replaced, since the data is a server's; in a pipe every byte
    /// is kept. A closed pipe is an error, which ends the command.
    pub(crate) fn data(&self, text: &str) -> io::Result<()> {
        if self.data.watched { self.data.write(&printable(text)) } else { self.data.write(text) }
    }

    /// Prints data with our colours. Text from a server in it must be [`printable`].
    pub(crate) fn painted(&self, make: impl FnOnce(TextPaint) -> String) -> io::Result<()> {
        self.data.write(&make(self.data.paint))
    }

    /// Prints a page of our own layout. Foreign text in it must be [`printable`].
    pub(crate) fn page(&self, make: impl FnOnce(TextPaint) -> String) -> io::Result<()> {
        self.data.write(&make(self.data.paint))
    }

    /// Prints bytes as they are, without an end of line.
    pub(crate) fn bytes(&self, bytes: &[u8]) -> io::Result<()> {
        let mut writer = self.data.writer.lock().unwrap_or_else(PoisonError::into_inner);
        writer.write_all(bytes)?;
        writer.flush()
    }

    pub(crate) fn is_data_watched(&self) -> bool {
        self.data.watched
    }

    /// Prints data as JSON.
    pub(crate) fn json(&self, value: &impl Serialize) -> io::Result<()> {
        // Pretty for people, one line per value for programs.
        let text = if self.data.watched { serde_json::to_string_pretty(value) } else { serde_json::to_string(value) };
        self.data.write(&text.map_err(io::Error::other)?)
    }

    /// Prints a table, as wide as it may be.
    pub(crate) fn table(&self, table: &TextTable) -> io::Result<()> {
        self.data.write(&table.render(self.data.paint, self.data.watched))
    }

    /// Prints a message to stderr. A failure to print it is ignored.
    pub(crate) fn message(&self, make: impl FnOnce(TextPaint) -> String) {
        // The result of a command does not depend on whether its messages can be read.
        let _ = self.talk.write(&make(self.talk.paint));
    }

    /// A progress display; hidden unless stderr is a terminal.
    pub(crate) fn progress(&self, message: &str, steps: Option<u64>) -> ProgressLine {
        ProgressLine::new(self.talk.watched && self.form == OutputFormat::Text, message, steps)
    }
}

/// The text with control characters replaced, so that text from a server cannot control the terminal.
pub(crate) fn printable(text: &str) -> String {
    let shown = |character: char| match character {
        // Data has these everywhere, and they cannot do more than move the text.
        '\n' | '\t' => character,
        other if other.is_control() => '\u{fffd}',
        other => other,
    };
    text.chars().map(shown).collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use std::sync::Arc;

    use super::*;

    /// A place to look at what was written.
    #[derive(Clone, Default)]
    pub(crate) struct CaptureBuffer(Arc<Mutex<Vec<u8>>>);

    impl CaptureBuffer {
        pub(crate) fn text(&self) -> String {
            String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
        }
    }

    impl Write for CaptureBuffer {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn output(watched: bool) -> (CommandOutput, CaptureBuffer, CaptureBuffer) {
        let (data, talk) = (CaptureBuffer::default(), CaptureBuffer::default());
        let environment = Environment::default();
        let stream = |buffer: &CaptureBuffer| OutputStream::new(Box::new(buffer.clone()), watched, &environment);
        (CommandOutput::new(OutputFormat::Text, stream(&data), stream(&talk)), data, talk)
    }

    #[test]
    fn data_goes_to_one_stream_and_talk_to_the_other() {
        let (output, data, talk) = output(false);
        output.data("result").unwrap();
        output.message(|_| "connected".to_owned());
        assert_eq!((data.text().as_str(), talk.text().as_str()), ("result\n", "connected\n"));
    }

    #[test]
    fn a_terminal_does_not_obey_a_server_and_a_pipe_gets_every_byte() {
        let (output, data, _) = self::output(true);
        output.data("a\u{1b}[2Jb").unwrap();
        assert_eq!(data.text(), "a\u{fffd}[2Jb\n");
        let (output, data, _) = self::output(false);
        output.data("a\u{1b}[2Jb").unwrap();
        assert_eq!(data.text(), "a\u{1b}[2Jb\n");
    }

    #[test]
    fn json_is_one_line_in_a_pipe() {
        let (output, data, _) = output(false);
        output.json(&serde_json::json!({"b": 1, "a": [2]})).unwrap();
        assert_eq!(data.text(), "{\"b\":1,\"a\":[2]}\n");
    }

    #[test]
    fn colours_follow_the_environment() {
        for (pairs, watched, expected) in [
            (&[][..], true, true),
            (&[], false, false),
            (&[("NO_COLOR", "1")], true, false),
            (&[("NO_COLOR", "")], true, true),
            (&[("CLICOLOR_FORCE", "1")], false, true),
            (&[("CLICOLOR_FORCE", "0")], false, false),
            (&[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")], true, false),
            (&[("TERM", "dumb")], true, false),
        ] {
            assert_eq!(wants_colour(&Environment::from_pairs(pairs.iter().copied()), watched), expected, "{pairs:?}");
        }
    }

    #[test]
    fn nobody_is_asked_when_nobody_watches() {
        assert!(!output(false).0.is_interactive());
    }
}
