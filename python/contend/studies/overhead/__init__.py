"""Applications on platforms of several sizes, against the bare host."""
