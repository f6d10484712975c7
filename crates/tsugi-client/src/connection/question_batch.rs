//! Collects the questions that a legacy server asks at the same time because of one call, so that its caller gets them
//! together.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::Sleep;

use super::parked::OpenQuestion;

/// How long questions are collected after the first. Each comes in its own write, and the client takes far longer to
/// answer.
const GATHER: Duration = Duration::from_millis(10);

/// Questions that are about to be put to a caller.
pub(crate) struct QuestionBatch {
    asked: Vec<OpenQuestion>,
    until: Pin<Box<Sleep>>,
}

impl QuestionBatch {
    /// A batch of these questions; `None` when there are none.
    pub(crate) fn of(asked: Vec<OpenQuestion>) -> Option<Box<Self>> {
        (!asked.is_empty()).then(|| Box::new(Self { asked, until: Box::pin(tokio::time::sleep(GATHER)) }))
    }

    /// Adds a question. One with the id of another is the same to its server.
    pub(crate) fn add(gathering: &mut Option<Box<Self>>, asked: OpenQuestion) {
        match gathering {
            Some(gathering) if gathering.asked.iter().any(|other| other.request.id == asked.request.id) => {}
            Some(gathering) => gathering.asked.push(asked),
            None => *gathering = Self::of(vec![asked]),
        }
    }

    /// Ready with all questions when the time is over; never when there are none.
    pub(crate) fn poll(gathering: &mut Option<Box<Self>>, context: &mut Context<'_>) -> Poll<Vec<OpenQuestion>> {
        let Some(gathered) = gathering else { return Poll::Pending };
        std::task::ready!(gathered.until.as_mut().poll(context));
        Poll::Ready(Self::take(gathering))
    }

    /// The questions that are there by now.
    pub(crate) fn take(gathering: &mut Option<Box<Self>>) -> Vec<OpenQuestion> {
        gathering.take().map(|gathering| gathering.asked).unwrap_or_default()
    }
}
