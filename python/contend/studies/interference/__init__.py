"""Victims alone and beside each neighbour; beside more of themselves; and mixed."""
