"""How a Job or a JobSet asks for groups, is marked, and which objects it gets. Pure formulas."""
