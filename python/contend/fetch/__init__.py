"""Downloads for hypervisors: what is to be fetched, and the program that does it (crates/fetch)."""
