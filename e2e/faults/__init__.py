"""What faults, tenants and other schedulers do, and what Muster keeps meanwhile."""
