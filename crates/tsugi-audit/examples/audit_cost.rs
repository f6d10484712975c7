//! Measures what a call pays for its two lines: `cargo run --release -p tsugi-audit --no-default-features --example
//! audit_cost [THREADS]`.

#![allow(clippy::print_stdout)]

use std::time::Instant;

use tsugi_audit::checkpoint::AuditKey;
use tsugi_audit::record::{AuditKind, AuditOutcome, AuditRecord};
use tsugi_audit::writer::{AuditWriter, WriterConfig};

const CALLS: usize = 50_000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let threads: usize = std::env::args().nth(1).map_or(Ok(1), |threads| threads.parse())?;
    let folder = std::env::current_dir()?.join("target");
    let file = folder.join(format!("audit-cost-{}.jsonl", std::process::id()));
    let writer = AuditWriter::open(WriterConfig::new(&file), AuditKey::from_seed(&[1; 32])?)?;
    let mut nanos: Vec<u64> = std::thread::scope(|scope| {
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(|| measure(&writer))).collect();
        running.into_iter().filter_map(|thread| thread.join().ok()).flatten().collect()
    });
    drop(writer);
    nanos.sort_unstable();
    let at = |part: f64| nanos[((nanos.len() - 1) as f64 * part) as usize] as f64 / 1000.0;
    println!("threads {threads} calls {}", nanos.len());
    println!("begun and ended: p50 {:.1} µs, p90 {:.1} µs, p99 {:.1} µs", at(0.5), at(0.9), at(0.99));
    for left in std::fs::read_dir(folder)?.flatten() {
        if left.file_name().to_string_lossy().starts_with(&format!("audit-cost-{}", std::process::id())) {
            std::fs::remove_file(left.path())?;
        }
    }
    Ok(())
}

fn measure(writer: &AuditWriter) -> Vec<u64> {
    let mut nanos = Vec::with_capacity(CALLS);
    for _ in 0..CALLS {
        let started = Instant::now();
        let begun = AuditRecord {
            identity: Some("corp:9f1c2a7e-alice"),
            client: Some("https://app.example/client.json"),
            action: Some("tools/call"),
            server: Some("files"),
            name: Some("read_text_file"),
            face: Some("mcp"),
            era: Some("modern"),
            request_id: Some("0000abcd-123456"),
            trace_id: Some("4bf92f3577b34da6a3ce929d0e0e4736"),
            ..AuditRecord::new(AuditKind::CallBegun)
        };
        let Ok(seq) = writer.require(&begun) else { continue };
        let ended = AuditRecord {
            kind: AuditKind::CallEnded,
            begun: seq,
            outcome: Some(AuditOutcome::Ok),
            micros: Some(1234),
            bytes: Some(512),
            ..begun
        };
        writer.note(&ended);
        nanos.push(started.elapsed().as_nanos() as u64);
    }
    nanos
}
