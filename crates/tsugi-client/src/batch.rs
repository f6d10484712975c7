//! Many calls at once: bounded, in order, one failure not failing the rest.

use std::future::Future;

use futures_util::{FutureExt, StreamExt};

/// Runs `work` on every item, at most `limit` at a time, and gives the results in the order of the items.
/// An item that takes long holds up no other. Dropping the future drops what has not ended.
pub async fn in_order<T, R, F>(items: Vec<T>, limit: usize, work: impl Fn(T) -> F) -> Vec<R>
where
    F: Future<Output = R>,
{
    let numbered = items.into_iter().enumerate().map(|(number, item)| work(item).map(move |result| (number, result)));
    let mut results: Vec<(usize, R)> =
        futures_util::stream::iter(numbered).buffer_unordered(limit.max(1)).collect().await;
    results.sort_unstable_by_key(|(number, _)| *number);
    results.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    #[tokio::test(start_paused = true)]
    async fn results_keep_their_order_and_the_limit_is_kept() {
        let (running, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let items: Vec<u64> = (0..50).collect();
        let results = in_order(items.clone(), 7, |item| {
            let (running, most) = (&running, &most);
            async move {
                most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                tokio::time::sleep(Duration::from_millis(100 - item)).await;
                running.fetch_sub(1, Ordering::SeqCst);
                item
            }
        })
        .await;
        assert_eq!(results, items);
        assert_eq!(most.load(Ordering::SeqCst), 7);
    }

    #[tokio::test]
    async fn an_item_that_takes_long_holds_up_no_other() {
        let is_last = tokio::sync::Notify::new();
        let results = in_order((0..10).collect(), 2, |item| {
            let is_last = &is_last;
            async move {
                match item {
                    0 => is_last.notified().await,
                    9 => is_last.notify_one(),
                    _ => {}
                }
                item
            }
        });
        let results =
            tokio::time::timeout(Duration::from_secs(60), results).await.expect("the first waits for the last");
        assert_eq!(results, (0..10).collect::<Vec<_>>());
    }
}
