"""Installation, operation, upgrade and removal of Muster."""
