#!/bin/sh
# Muster from this checkout on a kind cluster, with a gang that runs and one that waits: `make kind`.
# Needs docker, kind and kubectl. NODE_IMAGE chooses the Kubernetes version, as kindest/node:v1.34.0.
set -eu
cd "$(dirname "$0")/../../.."
cluster=muster
workload=busybox:1.37
image=$(sed -n 's/^ *image: *//p' manifests/base/webhook.yaml)

for command in docker kind kubectl; do
  command -v $command >/dev/null || { echo "make kind needs $command on the PATH" >&2; exit 2; }
done
on_cluster() { kubectl --context "kind-$cluster" "$@"; }

commit=$(git rev-parse HEAD 2>/dev/null || true)
docker build --build-arg COMMIT="$commit" --tag "$image" .
docker pull "$workload"
kind get clusters 2>/dev/null | grep -qx "$cluster" ||
  kind create cluster --name "$cluster" --config e2e/install/kind/cluster.yaml ${NODE_IMAGE:+--image "$NODE_IMAGE"}
kind load docker-image --name "$cluster" "$image" "$workload"

on_cluster apply --server-side -k manifests/base
for process in webhook controller scheduler; do
  on_cluster --namespace muster-system rollout status "deployment/muster-$process" --timeout=5m
done

on_cluster apply -f e2e/install/kind/gangs.yaml
on_cluster wait --for=create podgroups.scheduling.muster.dev/pg-job-one-rack podgroups.scheduling.muster.dev/pg-job-too-big --timeout=1m
on_cluster wait --for=condition=PodGroupInitiallyScheduled podgroups.scheduling.muster.dev/pg-job-one-rack --timeout=2m
on_cluster wait --for=jsonpath='{.status.blocker.kind}'=capacity podgroups.scheduling.muster.dev/pg-job-too-big --timeout=2m
on_cluster get pods --selector batch.kubernetes.io/job-name=one-rack --output wide
on_cluster get podgroups.scheduling.muster.dev
echo "The cluster keeps running: kubectl --context kind-$cluster ..., and kind delete cluster --name $cluster ends it."
