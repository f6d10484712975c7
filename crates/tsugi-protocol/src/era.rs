//! Translation between the modern revision and the older ones, as pure functions.
