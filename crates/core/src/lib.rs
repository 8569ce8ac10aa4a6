//! The parts of contend that must cost almost nothing. Pure Rust, no Python.
