"""The common base of several packages: configuration, metrics, ports, waiting."""
