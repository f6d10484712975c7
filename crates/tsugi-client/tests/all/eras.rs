//! The bridge between the eras: a modern caller meets a server of every kind and never notices which.

mod calls;
mod cell;
mod in_process;
mod ownership;
mod questions;
mod roots;
mod sessions;
mod state;
mod turns;
mod web_socket;
