//! The reader of the audit log: whatever stands in a file, it ends with a verdict, and no chain is whole by accident.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tsugi_audit::filter::{LineFilter, visible};
use tsugi_audit::reader::{ChainLine, LONGEST_LINE, next_piece};
use tsugi_audit::verify::{ChainVerdict, ChainVerifier, VerifyOptions};

fuzz_target!(|data: &[u8]| {
    for is_open in [false, true] {
        let mut verifier = ChainVerifier::new(VerifyOptions { is_open, ..VerifyOptions::default() });
        let broken = verifier.read("fuzz", &mut &data[..]).expect("memory can be read");
        let verdict = broken.map_or_else(|| verifier.finish(), ChainVerdict::Broken);
        if let (ChainVerdict::Whole(summary), false) = (&verdict, is_open) {
            // Only a signature may close a file.
            assert!(summary.last_checkpoint.as_ref().is_some_and(|checkpoint| checkpoint.is_signed()));
        }
    }
    let mut reader = data;
    while let Some(piece) = next_piece(&mut reader).expect("memory can be read") {
        assert!(piece.bytes.len() <= LONGEST_LINE + 1);
        if let Some(line) = ChainLine::parse(&piece.bytes) {
            assert!(line.seq <= 1 << 53);
        }
        if let Ok(value) = serde_json::from_slice(&piece.bytes) {
            LineFilter { kind: Some("call".to_owned()), ..LineFilter::default() }.allows(&value);
        }
    }
    assert!(!visible(&String::from_utf8_lossy(data)).chars().any(char::is_control));
});
