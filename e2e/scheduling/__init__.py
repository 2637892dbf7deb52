"""What the scheduler promises: leaders that come and go, explanations, scenarios of the KEPs."""
