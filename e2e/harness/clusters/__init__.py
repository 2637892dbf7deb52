"""The clusters the suites run on, behind one protocol."""
