"""The clusters of the suites, behind one protocol."""
