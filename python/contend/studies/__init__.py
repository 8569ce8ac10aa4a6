"""The questions that runs answer, a folder each: base.py says what a study is, and which there are."""
