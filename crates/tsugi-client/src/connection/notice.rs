//! Changes that a server reported outside any call, until they are handled: bounded, and none is lost.

use std::collections::BTreeSet;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tsugi_protocol::mcp::Method;
use tsugi_protocol::rpc::RpcNotification;

/// How many changed resources are remembered by name.
const MAX_UPDATED: usize = 1024;

/// A change that a server reported outside any call.
#[derive(Debug, Clone)]
pub(crate) enum ServerNotice {
    Tools,
    Prompts,
    Resources,
    /// One resource changed.
    Updated(String),
    /// The server forgot our session and has a new one, without the old one's subscriptions.
    Renewed,
    /// The stream of changes was interrupted.
    Missed,
}

impl ServerNotice {
    /// The change that a notification reports, if it does.
    pub(crate) fn of(notification: &RpcNotification) -> Option<Self> {
        Some(match notification.method {
            Method::ToolsChanged => ServerNotice::Tools,
            Method::PromptsChanged => ServerNotice::Prompts,
            Method::ResourcesChanged => ServerNotice::Resources,
            Method::ResourceUpdated => ServerNotice::Updated(notification.params_object().get_str("uri")?.into_owned()),
            _ => return None,
        })
    }
}

/// All changes since they were taken last.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct PendingNotices {
    pub(crate) tools: bool,
    pub(crate) prompts: bool,
    pub(crate) resources: bool,
    pub(crate) updated: BTreeSet<String>,
    /// More resources changed than are remembered by name: any may have.
    pub(crate) any_updated: bool,
    pub(crate) is_renewed: bool,
    pub(crate) is_missed: bool,
}

impl PendingNotices {
    fn add(&mut self, notice: ServerNotice) {
        match notice {
            ServerNotice::Tools => self.tools = true,
            ServerNotice::Prompts => self.prompts = true,
            ServerNotice::Resources => self.resources = true,
            ServerNotice::Updated(_) if self.updated.len() >= MAX_UPDATED => self.any_updated = true,
            ServerNotice::Updated(uri) => drop(self.updated.insert(uri)),
            ServerNotice::Renewed => self.is_renewed = true,
            ServerNotice::Missed => self.is_missed = true,
        }
    }
}

/// Changes that connections publish and one task takes. A change that is published twice before that is taken once.
#[derive(Debug, Default)]
pub(crate) struct NoticeInbox {
    told: Mutex<PendingNotices>,
    added: Notify,
}

impl NoticeInbox {
    pub(crate) fn publish(&self, notice: ServerNotice) {
        self.told.lock().add(notice);
        self.added.notify_one();
    }

    /// Waits for changes and takes all of them. Dropping the future loses nothing.
    pub(crate) async fn take(&self) -> PendingNotices {
        loop {
            let told = std::mem::take(&mut *self.told.lock());
            if told != PendingNotices::default() {
                return told;
            }
            self.added.notified().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn nothing_that_was_told_is_lost_however_much_it_is() {
        let notices = NoticeInbox::default();
        for number in 0..10_000 {
            notices.publish(ServerNotice::Tools);
            notices.publish(ServerNotice::Updated(format!("test://{}", number % 1000)));
        }
        notices.publish(ServerNotice::Renewed);
        let told = notices.take().await;
        assert!(told.tools && told.is_renewed && !told.any_updated && !told.prompts);
        assert_eq!(told.updated.len(), 1000);
    }

    #[tokio::test]
    async fn more_resources_than_are_remembered_by_name_count_as_any() {
        let notices = NoticeInbox::default();
        (0..=MAX_UPDATED).for_each(|number| notices.publish(ServerNotice::Updated(format!("test://{number}"))));
        let told = notices.take().await;
        assert_eq!((told.updated.len(), told.any_updated), (MAX_UPDATED, true));
    }

    #[tokio::test]
    async fn what_is_told_between_two_looks_wakes_the_one_who_looks() {
        let notices = NoticeInbox::default();
        notices.publish(ServerNotice::Prompts);
        assert!(notices.take().await.prompts);
        let mut looking = std::pin::pin!(notices.take());
        assert!(futures_util::poll!(&mut looking).is_pending());
        notices.publish(ServerNotice::Missed);
        assert!(looking.await.is_missed);
    }
}
