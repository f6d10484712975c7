//! Key sets: reading is bounded, and a key that was read fits the algorithms that it is offered for.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tsugi_auth::jose::algorithm::SigningAlgorithm;
use tsugi_auth::jose::jws::CompactJws;
use tsugi_auth::jose::key_set::KeySet;

/// The payload of RFC 7515 A.3 with its signature, whose key is not in any set of the fuzzer unless it is copied there.
const TOKEN: &str = "eyJhbGciOiJFUzI1NiJ9.e30.DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q";

fuzz_target!(|data: &[u8]| {
    let Ok(keys) = KeySet::parse(data) else { return };
    assert!(keys.len() <= 256);
    for algorithm in SigningAlgorithm::ALL {
        // Without an id there is one candidate or none.
        assert!(keys.candidates(None, algorithm).len() <= 1);
    }
    let token = CompactJws::parse(TOKEN).expect("the token of this file");
    assert!(token.verify(&keys).is_err(), "a signature of other bytes is never right");
});
