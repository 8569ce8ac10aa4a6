"""Storms replayed with edits, their gate, their regime, and what came of a prediction."""
