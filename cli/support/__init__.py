"""`muster support-bundle`: the state of a cluster for helpers, without secrets."""
