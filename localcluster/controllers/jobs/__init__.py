"""The Job controller: one pure decision per sync, and a thin shell that carries it out."""
