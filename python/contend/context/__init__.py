"""A component's cost in a whole: one RPC's, or one download's, in the storms of a cloud."""
