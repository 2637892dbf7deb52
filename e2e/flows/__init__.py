"""Users' flows with Muster, grouped by feature."""
