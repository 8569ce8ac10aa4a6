"""Suspects that are planted beside victims: what each costs is known, by turns of the bench's own."""
