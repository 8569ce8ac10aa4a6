"""What goes wrong on purpose at a broker of contend's own while calls are made over it."""
