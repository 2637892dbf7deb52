#!/bin/sh
# The first process of a node: it starts containerd, the kubelet, kube-proxy and what enforces
# NetworkPolicies, and restarts each of them when it ends, as systemd does.
#   node.sh NAME ADDRESS [KUBELET_ARGUMENT ...]
set -eu
name=$1 address=$2
shift 2
hostname "$name"
echo 1 > /proc/sys/net/ipv4/ip_forward

if [ -f /sys/fs/cgroup/cgroup.controllers ]; then
    # A group with controllers for its children has no processes of its own.
    mkdir -p /sys/fs/cgroup/init
    while read -r process; do
        echo "$process" > /sys/fs/cgroup/init/cgroup.procs
    done < /sys/fs/cgroup/cgroup.procs
    sed 's/^/+/; s/ / +/g' /sys/fs/cgroup/cgroup.controllers > /sys/fs/cgroup/cgroup.subtree_control
fi

keep() {
    program=$1
    while true; do
        "$@" >> "/var/log/$program.log" 2>&1 || true
        sleep 1
    done
}

until ip -4 address show | grep -q "$address"; do sleep 0.1; done
keep containerd &
until [ -S /run/containerd/containerd.sock ]; do sleep 0.1; done
keep kubelet --config=/etc/kubernetes/kubelet.yaml --kubeconfig=/etc/kubernetes/kubelet.kubeconfig \
    --hostname-override="$name" --node-ip="$address" "$@" &
keep kube-proxy --config=/etc/kubernetes/kube-proxy.yaml --hostname-override="$name" &
keep kube-router --kubeconfig=/etc/kubernetes/kube-router.kubeconfig --hostname-override="$name" \
    --service-cluster-ip-range="$SERVICES" --run-firewall --run-router=false \
    --run-service-proxy=false --enable-cni=false &
wait
