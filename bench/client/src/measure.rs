//! Runs one contender for a moment and counts.

use std::time::{Duration, Instant};

use crate::contender::Contender;

/// What one measurement gave.
#[derive(Debug, Clone, Copy)]
pub struct Sample {
    pub rate: f64,
    pub p50: f64,
    pub p99: f64,
    pub cpu: f64,
}

/// Calls in a closed loop from `concurrency` tasks for `time`.
pub async fn run(contender: &Contender, concurrency: usize, time: Duration) -> Sample {
    let cpu_before = cpu_us();
    let started = Instant::now();
    let tasks: Vec<_> = (0..concurrency)
        .map(|_| {
            let contender = contender.clone();
            tokio::spawn(async move {
                let mut latencies = Vec::with_capacity(4096);
                let mut worker = contender.worker().await;
                while started.elapsed() < time {
                    let before = Instant::now();
                    worker.call().await;
                    latencies.push(before.elapsed().as_nanos() as u64);
                }
                latencies
            })
        })
        .collect();
    let mut latencies = Vec::new();
    for task in tasks {
        latencies.extend(task.await.expect("a worker ends"));
    }
    let took = started.elapsed().as_secs_f64();
    let cpu = cpu_us() - cpu_before;
    latencies.sort_unstable();
    let calls = latencies.len().max(1);
    let at = |part: f64| latencies.get(((calls - 1) as f64 * part) as usize).map_or(0.0, |ns| *ns as f64 / 1000.0);
    Sample { rate: calls as f64 / took, p50: at(0.5), p99: at(0.99), cpu: cpu / calls as f64 }
}

/// Microseconds of CPU that this process has used; its children are not counted.
fn cpu_us() -> f64 {
    // SAFETY: `rusage` is plain data that the call fills.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &mut usage);
        usage
    };
    let of = |time: libc::timeval| time.tv_sec as f64 * 1e6 + time.tv_usec as f64;
    of(usage.ru_utime) + of(usage.ru_stime)
}
