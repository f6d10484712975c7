//! Many calls at once: bounded, in order, one failure not failing the rest.

use std::future::Future;

use futures_util::StreamExt;

/// Runs `work` on every item, at most `limit` at a time, and gives the results in the order of the items.
/// Dropping the future drops what has not ended.
pub async fn in_order<T, R, F>(items: Vec<T>, limit: usize, work: impl Fn(T) -> F) -> Vec<R>
where
    F: Future<Output = R>,
{
    futures_util::stream::iter(items).map(work).buffered(limit.max(1)).collect().await
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
}
