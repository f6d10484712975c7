//! Batches, which only 2025-03-26 has: one array of messages, cut into its messages.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use futures_util::Stream;
use futures_util::future::join_all;
use tsugi_protocol::json::scan::{self, ScanError, ScanErrorKind};
use tsugi_protocol::rpc::{RpcError, code};

use super::session::MessageEffect;
use super::turn::LegacyTurn;
use crate::face::running_call::TurnOutput;

/// True when these bytes are an array rather than a message.
pub(crate) fn is_batch(bytes: &[u8]) -> bool {
    bytes.get(scan::skip_space(bytes, 0)) == Some(&b'[')
}

/// The messages of a batch. Empty batches and those of more than `limit` messages are refused.
pub(crate) fn split(bytes: &Bytes, limit: usize) -> Result<Vec<Bytes>, RpcError> {
    let messages = cut(bytes, limit).map_err(|error| RpcError::new(code::PARSE_ERROR, &error.to_string()))?;
    match messages.len() {
        0 => Err(RpcError::new(code::INVALID_REQUEST, "the batch is empty")),
        count if count > limit => {
            Err(RpcError::new(code::INVALID_REQUEST, &format!("a batch has at most {limit} messages")))
        }
        _ => Ok(messages),
    }
}

/// One array of all answers, for a client that cannot read a stream of them. What turns say besides is lost to it.
pub(crate) async fn joined(mut answers: Vec<Bytes>, turns: Vec<LegacyTurn>) -> Bytes {
    let responses = join_all(turns.into_iter().map(response_of)).await;
    answers.extend(responses.into_iter().flatten());
    array(&answers)
}

/// These messages as one array.
pub(crate) fn array(answers: &[Bytes]) -> Bytes {
    let mut array = BytesMut::from(&b"["[..]);
    for (index, answer) in answers.iter().enumerate() {
        array.extend_from_slice(if index == 0 { b"" } else { b"," });
        array.extend_from_slice(answer);
    }
    array.extend_from_slice(b"]");
    array.freeze()
}

/// A batch on a wire that carries everything: notifications of its requests come as they are sent, and their
/// responses as one array at the end ([batch](https://www.jsonrpc.org/specification#batch)).
#[derive(Default)]
pub(crate) struct BatchStream {
    answers: Vec<Bytes>,
    turns: Vec<LegacyTurn>,
    is_over: bool,
}

impl BatchStream {
    /// Adds a response that is there.
    pub(crate) fn answer(&mut self, response: Bytes) {
        self.answers.push(response);
    }

    /// Adds what one message of the batch led to.
    pub(crate) fn add(&mut self, received: MessageEffect) {
        match received {
            MessageEffect::Nothing => {}
            MessageEffect::Answered(response) => self.answers.push(response),
            MessageEffect::Turn(turn) => self.turns.push(*turn),
        }
    }

    /// What any of the requests says on the way. Those that have ended are taken out.
    fn poll_turns(&mut self, context: &mut Context<'_>) -> Option<Bytes> {
        let mut index = 0;
        while let Some(turn) = self.turns.get_mut(index) {
            match turn.poll(context) {
                Poll::Pending => index += 1,
                Poll::Ready(TurnOutput::Message(message)) => return Some(message),
                Poll::Ready(TurnOutput::Response(response)) => {
                    self.answers.push(response.into_bytes());
                    self.turns.swap_remove(index);
                }
                Poll::Ready(TurnOutput::Silence) => _ = self.turns.swap_remove(index),
            }
        }
        None
    }
}

impl Stream for BatchStream {
    type Item = Bytes;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        if let Some(message) = self.poll_turns(context) {
            return Poll::Ready(Some(message));
        }
        if !self.turns.is_empty() {
            return Poll::Pending;
        }
        // A batch of notifications alone is answered by nothing.
        let is_told = std::mem::replace(&mut self.is_over, true) || self.answers.is_empty();
        Poll::Ready((!is_told).then(|| array(&self.answers)))
    }
}

async fn response_of(mut turn: LegacyTurn) -> Option<Bytes> {
    loop {
        match turn.next().await {
            TurnOutput::Message(_) => {}
            TurnOutput::Response(response) => return Some(response.into_bytes()),
            TurnOutput::Silence => return None,
        }
    }
}

/// Cuts at most one message more than `limit`, so that a huge batch costs no more than a small one.
fn cut(bytes: &Bytes, limit: usize) -> Result<Vec<Bytes>, ScanError> {
    scan::validate_utf8(bytes)?;
    let mut messages = Vec::new();
    let mut at = scan::skip_space(bytes, scan::skip_space(bytes, 0) + 1);
    if bytes.get(at) == Some(&b']') {
        return Ok(messages);
    }
    loop {
        let end = scan::skip_value(bytes, at)?;
        messages.push(bytes.slice(at..end));
        if messages.len() > limit {
            return Ok(messages);
        }
        at = scan::skip_space(bytes, end);
        match bytes.get(at) {
            Some(b',') => at = scan::skip_space(bytes, at + 1),
            Some(b']') => return scan::expect_end(bytes, at + 1).map(|()| messages),
            Some(_) => return Err(ScanError { at, kind: ScanErrorKind::Unexpected }),
            None => return Err(ScanError { at, kind: ScanErrorKind::Truncated }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split_text(text: &str, limit: usize) -> Result<Vec<Bytes>, i64> {
        split(&Bytes::copy_from_slice(text.as_bytes()), limit).map_err(|error| error.code())
    }

    #[test]
    fn a_batch_is_cut_into_its_messages() {
        assert!(is_batch(b" [1]") && !is_batch(b"{}") && !is_batch(b""));
        assert_eq!(split_text(r#" [ {"a":[1]} , 2 ] "#, 5).unwrap(), [&br#"{"a":[1]}"#[..], b"2"]);
        for (bad, code) in [("[]", -32600), ("[1,2,3]", -32600), ("[1", -32700), ("[1 2]", -32700), ("[1] x", -32700)] {
            assert_eq!(split_text(bad, 2).unwrap_err(), code, "{bad}");
        }
    }

    #[test]
    fn a_huge_batch_is_refused_without_reading_all_of_it() {
        let huge = format!("[{}", "{},".repeat(100_000));
        assert_eq!(split_text(&huge, 50).unwrap_err(), -32600);
    }
}
