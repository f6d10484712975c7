//! Tokens of issuers that exist in this file only: right ones, forged ones, and the vectors of RFCs and of Wycheproof.

mod attacks;
mod vectors;
