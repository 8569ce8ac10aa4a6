//! What a broker may do that a healthy one seldom does: a peer that follows a script, over a real socket.
#![allow(clippy::unwrap_used)]
mod again;
mod calls;
mod client;
mod peer;
mod service;
