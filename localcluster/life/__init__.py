"""What lives in the embedded cluster: kubelets, the node life cycle, Job, JobSet and disruption."""
