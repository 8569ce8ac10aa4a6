"""One boot storm on a cloud: N servers asked for, watched until they are ACTIVE, deleted; every moment as an interval."""
