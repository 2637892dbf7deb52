"""Which pods start where, and why others wait."""
