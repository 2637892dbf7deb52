"""Builds and runs etcd, kube-apiserver, its controllers, KWOK and the JobSet controller."""
