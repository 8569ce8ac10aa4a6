"""The native core: what must cost almost nothing. Documented in crates/python/src."""
