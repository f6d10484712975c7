//! Offer every upstream server to callers through many faces, guarded and measured.
