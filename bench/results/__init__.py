"""How the pages below docs/results come about: who measured what, when and where, and the page made of it.

A writer (a program in bench/, a campaign in tests/accept) measures within `record.recording()` and hands what it found to
`files.save()`: the data file gets a head of one shape, and the page is rendered from the data. `recipes.yaml` declares each
page; `scripts/results.py` shows, renders, checks and makes them.
"""
