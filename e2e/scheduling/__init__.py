"""What the scheduler guarantees: changes of leader, explanations, scenarios of the KEPs."""
