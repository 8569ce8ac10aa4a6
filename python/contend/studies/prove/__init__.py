"""Prove: what each neighbour costs a service, by holding it back for moments on the live system."""
