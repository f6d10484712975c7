//! Where a scripted server's messages go, framed as the script says.

use std::io::Write;

use parking_lot::Mutex;

use crate::script::{Framing, Script};

/// How much of a flood is written at a time.
const BLOCK: usize = 1 << 16;

/// The way back to one caller.
pub(super) trait Voice: Send + Sync {
    /// A message on the way to the answer, or one that nobody asked for.
    fn note(&self, text: &str);
    /// Very many of them, as fast as can be.
    fn notes(&self, texts: &mut dyn Iterator<Item = String>) {
        texts.for_each(|text| self.note(&text));
    }
    /// The answer.
    fn last(&self, text: &str);
    /// Bytes that need not be a message.
    fn raw(&self, bytes: &[u8]);
    /// The first half of the answer.
    fn half(&self, text: &str);
    /// True when the caller is known to have gone.
    fn is_gone(&self) -> bool;
    /// HTTP: an answer that is no message. Elsewhere nothing.
    fn status(&self, code: u16, headers: &[(String, String)], body: &str);
    /// HTTP: the connection is reset. Elsewhere nothing.
    fn reset(&self);
}

/// One stream that all messages share.
pub(super) struct Shared {
    writer: Mutex<Box<dyn Write + Send>>,
    framing: Framing,
    line_end: String,
    pieces: Option<usize>,
}

impl Shared {
    pub(super) fn new(writer: Box<dyn Write + Send>, script: &Script) -> Self {
        let (framing, line_end, pieces) = (script.framing, script.line_end.clone(), script.pieces);
        Self { writer: Mutex::new(writer), framing, line_end, pieces }
    }

    fn framed(&self, text: &str) -> Vec<u8> {
        match self.framing {
            Framing::Newline => [text.as_bytes(), self.line_end.as_bytes()].concat(),
            Framing::ContentLength | Framing::OnlyContentLength => {
                format!("Content-Length: {}\r\n\r\n{text}", text.len()).into_bytes()
            }
        }
    }

    /// A reader that has gone is no concern of a server that tests readers.
    fn write(&self, bytes: &[u8]) {
        let mut writer = self.writer.lock();
        for piece in bytes.chunks(self.pieces.unwrap_or(usize::MAX).max(1)) {
            if writer.write_all(piece).and_then(|()| writer.flush()).is_err() {
                return;
            }
        }
    }
}

impl Voice for Shared {
    fn note(&self, text: &str) {
        self.write(&self.framed(text));
    }

    fn notes(&self, texts: &mut dyn Iterator<Item = String>) {
        let mut block = Vec::with_capacity(2 * BLOCK);
        for text in texts {
            block.extend(self.framed(&text));
            if block.len() >= BLOCK {
                self.write(&block);
                block.clear();
            }
        }
        self.write(&block);
    }

    fn last(&self, text: &str) {
        self.note(text);
    }

    fn raw(&self, bytes: &[u8]) {
        self.write(bytes);
    }

    fn half(&self, text: &str) {
        let framed = self.framed(text);
        self.write(&framed[..framed.len() / 2]);
    }

    fn is_gone(&self) -> bool {
        false
    }

    fn status(&self, _code: u16, _headers: &[(String, String)], _body: &str) {}

    fn reset(&self) {}
}
