"""Who goes for whom: preemption on any cluster."""
