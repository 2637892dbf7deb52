"""How a Job or JobSet asks for groups, is marked, and which objects it gets. Pure functions."""
