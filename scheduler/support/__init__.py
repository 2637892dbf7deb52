"""What several packages need: configuration, metrics, ports, waiting."""
