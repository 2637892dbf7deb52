"""What reviews look up in the cluster."""
