"""One module a kind of page: `body(data)` gives its text below the frame, from the data alone."""
