"""Measurements of another tool, as `contend import` read them: to report and compare, never to run."""
