"""Clouds that machines are created on: who may (access), how one asks (http), what is made and found again (openstack),
and how it goes away (removal). Needs the extra `openstack` where a user logs in, and nothing of it where none does."""
