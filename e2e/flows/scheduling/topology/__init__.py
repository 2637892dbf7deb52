"""Trees of groups in domains of nodes, on any cluster."""
