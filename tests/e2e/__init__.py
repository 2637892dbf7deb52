"""The parts of e2e that need no cluster."""
