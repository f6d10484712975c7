//! The guard and the egress proxy from outside: what reaches a listening socket decides.

mod egress;
mod guard;
mod world;
