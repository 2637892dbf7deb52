"""One file for each kind that admission handles."""
