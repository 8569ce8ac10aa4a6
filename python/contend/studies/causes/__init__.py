"""Why a victim is slowed: from estimates and evidence to causes with shares of the slowdown."""
