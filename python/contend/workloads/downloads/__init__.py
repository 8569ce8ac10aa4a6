"""Downloads by the clients that people use: what each is started with, and how those that are built come to be."""
