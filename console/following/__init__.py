"""Changes of the cluster since the last refresh, and its recent history."""
