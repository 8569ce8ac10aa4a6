"""Pairs of instances over hosts and subnets: where their ends stand, and what a trial of theirs measures."""
