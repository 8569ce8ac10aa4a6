"""Experiments whose true answer is known, which the estimators of `contend.stats` are checked against."""
