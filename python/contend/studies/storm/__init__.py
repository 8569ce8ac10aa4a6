"""Batches of several sizes: how long each takes, and by how much another job stretches it."""
