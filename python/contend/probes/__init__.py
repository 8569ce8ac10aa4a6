"""Records made while a trial runs, what they say, and what recording cost."""
