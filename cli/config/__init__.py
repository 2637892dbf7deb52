"""The configuration file, and what each process takes from it."""
