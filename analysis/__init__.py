"""Questions about a copy of a cluster: what would fit, why not, and what if."""
