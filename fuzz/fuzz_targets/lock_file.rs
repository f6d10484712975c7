//! The lock file: no bytes make the parser panic, and what it reads is written and read again as the same.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tsugi_pins::LockFile;

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    check(text);
    // Without it the fuzzer would have to find the first line by chance.
    check(&format!("tsugi-lock 1\n{text}"));
});

fn check(text: &str) {
    match LockFile::parse(text) {
        Ok(file) => {
            let written = file.to_string();
            let again = LockFile::parse(&written).expect("what was written can be read");
            assert!(again.iter().map(|(key, one)| (key, one.digest)).eq(file.iter().map(|(key, one)| (key, one.digest))));
            assert_eq!(again.to_string(), written);
        }
        Err(error) => assert!(error.line >= 1 && error.line <= text.lines().count().max(1)),
    }
}
