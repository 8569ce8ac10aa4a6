"""Faults that contend causes at a broker of its own while calls are made over it."""
