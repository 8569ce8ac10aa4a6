"""What would change if: storms replayed with edits, their gate, their regime, and what came of a prediction."""
