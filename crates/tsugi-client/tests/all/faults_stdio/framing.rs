//! Servers that read nothing but messages with `Content-Length` before them.

use std::time::Duration;

use tsugi_client::{Manager, ManagerOptions};
use tsugi_testkit::script::{Framing, Script};
use tsugi_testkit::scripted::Scripted;

use crate::world::{Bench, LIMIT, Peer, config, options};

/// With a probe that a silent server does not hold up for long.
fn quick() -> ManagerOptions {
    ManagerOptions { probe_timeout: Duration::from_millis(200), ..options() }
}

#[tokio::test]
async fn a_server_that_says_nothing_to_lines_is_greeted_with_content_length_and_known_from_then_on() {
    let state = tempfile::tempdir().unwrap();
    let kept = |options: ManagerOptions| ManagerOptions { state_dir: Some(state.path().to_owned()), ..options };
    let peer = Scripted::new(Script { framing: Framing::ContentLength, ..Script::legacy() });
    let bench = Bench::under(kept(quick()), peer, |config| config);
    bench.works().await;
    let journal = bench.peer.journal();
    assert_eq!((journal.launches(), journal.received("initialize").len()), (1, 1));

    // Whoever waits for the end of a silence waits too long.
    let hour = Duration::from_secs(3600);
    let second = Manager::new(kept(ManagerOptions { handshake_timeout: hour, probe_timeout: hour, ..options() }));
    let server = second.register(config("again", bench.peer.target())).unwrap();
    server.ready(LIMIT).await.unwrap();
    second.stop().await;
    bench.finish().await;
}

#[tokio::test]
async fn a_server_that_dies_of_lines_is_started_once_more_with_content_length() {
    let bench = Bench::new(Script { framing: Framing::OnlyContentLength, ..Script::legacy() });
    bench.works().await;
    // Once for each handshake in lines before that.
    assert_eq!(bench.peer.journal().launches(), 3);
    bench.finish().await;
}

#[tokio::test]
async fn a_server_that_is_only_slow_to_read_is_not_sent_what_is_no_line() {
    let slow = Script { start_delay_ms: 4500, ..Script::legacy() };
    let bench = Bench::under(quick(), Scripted::new(slow), |config| config);
    bench.works().await;
    let journal = bench.peer.journal();
    assert_eq!((journal.launches(), journal.of("unreadable").len()), (1, 0));
    bench.finish().await;
}
