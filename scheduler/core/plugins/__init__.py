"""One file for each plug-in of kube-scheduler, under its name: filtering and scoring together."""
