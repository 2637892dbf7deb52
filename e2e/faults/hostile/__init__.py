"""What tenants, faults and other schedulers may do, and what must hold all the same."""
