"""What another tool measured, as `contend import` read it: it is reported and compared, never run."""
