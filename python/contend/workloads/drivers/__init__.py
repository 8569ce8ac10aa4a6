"""Load drivers, which load and measure inside a trial, against any test bed or service."""
