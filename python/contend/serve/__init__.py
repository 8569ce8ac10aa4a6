"""A page of many runs: read in place, over HTTP, without ever writing. `contend serve` starts it.

reading   one run directory as an Entry, whatever state it is in
index     all of them, in DuckDB, read again only where a directory has changed
trend     one metric of one cell over the runs of one scenario on one host, and where its level changed
access    who may ask: addresses, names of this host, the token
pages     what is shown, as HTML
server    the routes
"""
