"""Downloads by the clients that people use: their commands, and the builds of those that are compiled here."""
