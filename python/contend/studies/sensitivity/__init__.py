"""Each workload as a victim of injectors, one a resource, and as a neighbour of small probes; and the pairs themselves."""
