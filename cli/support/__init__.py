"""`muster support-bundle`: what helpers need to know of a cluster, without secrets."""
