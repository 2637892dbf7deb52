"""What gangs get: scenarios of the KEPs, counts that change, volumes, names of schedulers."""
