//! What a call through `tsugi-client` costs, beside the bare wire and beside `rmcp`, in one interleaved run.
//!
//! Every round runs every contender for a moment in turn, so that a busy neighbour hurts all alike.
//! Reported are medians over the rounds, and ratios of CPU time and latency within a round.

mod bare;
mod contender;
mod measure;

use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;
use contender::Contender;
use measure::Sample;

#[derive(Parser)]
struct Args {
    /// Where the back ends (`rig-stdio`, `rig-http`) were built
    #[arg(long, default_value = "target/release")]
    bin: PathBuf,
    /// How often each cell is measured
    #[arg(long, default_value_t = 7)]
    rounds: usize,
    /// Milliseconds per measurement
    #[arg(long, default_value_t = 700)]
    millis: u64,
    /// Only cells whose name contains this
    #[arg(long, default_value = "")]
    only: String,
    /// Only these contenders; ratios are against the first
    #[arg(long, default_value = "bare,tsugi,stack,keeping,rmcp")]
    against: String,
    /// Print JSON lines instead of a table
    #[arg(long)]
    json: bool,
}

fn main() {
    tsugi_process::guardian_main();
    let args = Args::parse();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("runtime");
    runtime.block_on(run(args));
}

struct Cell {
    wire: &'static str,
    concurrency: usize,
    size: usize,
}

async fn run(args: Args) {
    let http = contender::HttpBackEnd::start(&args.bin).await;
    for (wire, concurrency, size) in [
        ("stdio", 1, 1 << 10),
        ("stdio", 64, 1 << 10),
        ("stdio", 1, 200 << 10),
        ("stdio", 64, 200 << 10),
        ("http", 1, 1 << 10),
        ("http", 64, 1 << 10),
        ("http", 1, 200 << 10),
        ("http", 64, 200 << 10),
    ] {
        let cell = Cell { wire, concurrency, size };
        let name = format!("{wire} {} KiB x{concurrency}", size >> 10);
        if name.contains(&args.only) {
            measure_cell(&args, &http, &cell, &name).await;
        }
    }
}

async fn measure_cell(args: &Args, http: &contender::HttpBackEnd, cell: &Cell, name: &str) {
    let mut contenders = Vec::new();
    for kind in ["bare", "tsugi", "stack", "keeping", "rmcp"].into_iter().filter(|kind| args.against.contains(kind)) {
        contenders.push((kind, Contender::new(kind, cell.wire, cell.size, &args.bin, http).await));
    }
    let mut samples: Vec<Vec<Sample>> = vec![Vec::new(); contenders.len()];
    for round in 0..=args.rounds {
        for (index, (_, contender)) in contenders.iter().enumerate() {
            let sample = measure::run(contender, cell.concurrency, Duration::from_millis(args.millis)).await;
            // The first round warms up.
            if round > 0 {
                samples[index].push(sample);
            }
        }
    }
    for (index, (kind, _)) in contenders.iter().enumerate() {
        report(args, name, kind, &samples[index], &samples[0]);
    }
}

fn report(args: &Args, name: &str, kind: &str, own: &[Sample], bare: &[Sample]) {
    let median = |values: Vec<f64>| {
        let mut values = values;
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    };
    let of = |pick: fn(&Sample) -> f64| median(own.iter().map(pick).collect());
    let ratio = |pick: fn(&Sample) -> f64| median(own.iter().zip(bare).map(|(own, bare)| pick(own) / pick(bare)).collect());
    let (rate, p50, p99, cpu) = (of(|s| s.rate), of(|s| s.p50), of(|s| s.p99), of(|s| s.cpu));
    let (p50_ratio, cpu_ratio) = (ratio(|s| s.p50), ratio(|s| s.cpu));
    if args.json {
        let line = serde_json::json!({"cell": name, "kind": kind, "callsPerSecond": rate, "p50us": p50, "p99us": p99,
            "cpuUsPerCall": cpu, "p50OverBare": p50_ratio, "cpuOverBare": cpu_ratio});
        println!("{line}");
    } else {
        println!(
            "{name:<20} {kind:<7} {rate:>9.0} calls/s  p50 {p50:>8.1} us ({p50_ratio:.2}x)  p99 {p99:>9.1} us  cpu {cpu:>8.2} us/call ({cpu_ratio:.2}x bare)"
        );
    }
}
