"""Entities of each kind, more and more: what that does to the calls about them."""
