"""PodGroups and CompositePodGroups of Kubernetes itself, of which Muster schedules its own."""
