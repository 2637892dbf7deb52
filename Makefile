# The commands of README.md and CONTRIBUTING.md. Everything runs from .venv;
# everything that is built or fetched lives in .cache.
SHELL := /bin/bash
PYTHON ?= python3
BIN := .venv/bin
# The last commit before the rule for commit messages; it counts until there is a tag.
COMMITS_SINCE := b027ef7c
# The rules for Prometheus, as an object of the Prometheus Operator.
PROMETHEUS_RULE = { sed '/^spec:/q' manifests/monitoring/prometheus-rule.yaml; sed '/^\#/d; s/^./  &/' manifests/monitoring/rules.yaml; }
# Suites and demos start hundreds of processes: each would compile every module again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test test-long test-nodes test-monitoring test-workloads check docs docs-serve format generate verify e2e \
  e2e-console pictures e2e-modules e2e-operate e2e-upgrade test-versions kind up down bench bench-e2e lock version release clean

demo: .venv ## start the embedded cluster with Muster and place the examples
	$(BIN)/muster demo $(if $(KEEP),--keep)

.venv: requirements/dev.txt pyproject.toml localcluster/pyproject.toml clients/python/pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --require-hashes --requirement requirements/dev.txt
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable . --editable localcluster --editable clients/python
	@touch .venv

check: .venv ## format, lint, types, layers, commits, generated files, the site
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(BIN)/python -m tools.checks.after_await scheduler
	$(BIN)/python -m tools.checks.unread_results scheduler/core
	@since=$$([ ! -e .git ] || git describe --tags --abbrev=0 2>/dev/null || git rev-parse -q --verify $(COMMITS_SINCE)); \
	if [ "$$since" ] && [ "$$(git rev-list -1 $$since..HEAD)" ]; then $(BIN)/cz check --rev-range "$$since..HEAD"; \
	else echo "commits: none to check, or no full clone"; fi
	$(MAKE) --no-print-directory verify docs

docs: .venv ## the documentation as a site, into .cache/site; a broken link ends it (--quiet would hide it)
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

docs-serve: .venv ## the same at http://127.0.0.1:8000, rebuilt after each change
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs serve

format: .venv
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

generate: .venv ## write the files that are made from code
	$(BIN)/python -m api.crd manifests/crd
	$(BIN)/python -m tools.api_reference docs/api-reference.md
	$(BIN)/python -m tools.limits_page docs/limits.md
	$(BIN)/python -m tools.metrics_page docs/metrics.md
	$(BIN)/python -m cli.manifests.chart charts/muster
	$(BIN)/python -m tools.chart_values charts/muster
	$(BIN)/python -m tools.clients clients
	@rule=$$($(PROMETHEUS_RULE)) && echo "$$rule" > manifests/monitoring/prometheus-rule.yaml

verify: .venv ## generated files are as the code says
	@tmp=$$(mktemp -d) && trap 'rm -rf "$$tmp" "$$tmp.md" "$$tmp.limits.md" "$$tmp.metrics.md"' EXIT && \
	$(BIN)/python -m api.crd "$$tmp" && \
	$(BIN)/python -m tools.api_reference "$$tmp.md" && \
	$(BIN)/python -m tools.limits_page "$$tmp.limits.md" && diff -u docs/limits.md "$$tmp.limits.md" && \
	$(BIN)/python -m tools.metrics_page "$$tmp.metrics.md" && diff -u docs/metrics.md "$$tmp.metrics.md" && \
	diff -u manifests/monitoring/prometheus-rule.yaml <($(PROMETHEUS_RULE)) && \
	diff -ru --exclude=Kustomization manifests/crd "$$tmp" && diff -u docs/api-reference.md "$$tmp.md" && \
	cp -R charts/muster "$$tmp" && $(BIN)/python -m cli.manifests.chart "$$tmp/muster" && \
	$(BIN)/python -m tools.chart_values "$$tmp/muster" && \
	diff -ru charts/muster "$$tmp/muster" && \
	cp -R clients "$$tmp" && $(BIN)/python -m tools.clients "$$tmp/clients" && diff -ru clients "$$tmp/clients" || \
	{ echo "generated files are stale: run make generate" >&2; exit 1; }

test: .venv ## checks, unit tests, and flows on the embedded cluster and on a real control plane
	$(BIN)/python -m e2e.run_tests

test-long: .venv ## everything, with the full counts, on both and on each Kubernetes version
	$(BIN)/python -m e2e.run_tests --long

test-versions: .venv ## the suites of the real control plane on each Kubernetes version; VERSIONS="1.33.13" for some
	$(BIN)/python -m e2e.run_tests --versions $(VERSIONS)

e2e: .venv ## the end-to-end suite on the cluster of KUBECONFIG
	@test -n "$(KUBECONFIG)" || { echo "name a cluster: make e2e KUBECONFIG=FILE" >&2; exit 2; }
	$(BIN)/python -m pytest e2e --kubeconfig=$(KUBECONFIG)

test-workloads: .venv ## controllers of workloads, built first, on the real control plane with Muster
	$(BIN)/python -m e2e.harness.controlplane.build --workloads
	$(BIN)/python -m pytest e2e/flows/owners/workloads --cluster=real --long

test-nodes: .venv ## Muster in containers on real kubelets, on this machine; root only
	$(BIN)/python -m e2e.nodes.cluster.build
	$(BIN)/python -m pytest e2e/nodes --cluster=nodes

test-monitoring: .venv ## alerts, dashboard and metrics, with a real Prometheus, which is built first
	$(BIN)/python -m e2e.harness.controlplane.build --monitoring
	$(BIN)/python -m pytest e2e/install/monitoring --cluster=local --long

e2e-console: .venv ## the console's page in a real Chromium, installed if need be
	$(BIN)/python -m e2e.console.chromium
	$(BIN)/python -m pytest e2e/console

pictures: .venv ## take the pictures in docs/pictures/console again, in a real Chromium
	$(BIN)/python -m e2e.console.chromium
	$(BIN)/python -m pytest e2e/console/test_pictures.py --long --record

e2e-operate: e2e-modules ## a whole life of an installation, by the real helm, kubectl and Prometheus
	$(BIN)/python -m e2e.harness.controlplane.build --monitoring
	$(BIN)/python -m pytest e2e/install/operate --cluster=real

e2e-modules: .venv ## build the real control plane into .cache/controlplane/bin
	$(BIN)/python -m e2e.harness.controlplane.build

e2e-upgrade: e2e-modules ## from each released version to this one and back, ROUNDS times, with gangs running
	$(BIN)/python -m pytest e2e/install/upgrade --cluster=real --rounds=$(or $(ROUNDS),1) -s

kind: ## Muster from this checkout on a kind cluster, with two gangs; needs docker, kind and kubectl
	@e2e/install/kind/up.sh

up: e2e-modules ## keep a real control plane with Muster running; kubeconfig: .cache/controlplane/kubeconfig
	$(BIN)/python -m e2e.harness.controlplane.up --muster

down: .venv ## end what `make up` started
	$(BIN)/python -m e2e.harness.controlplane.down

bench: .venv ## decisions alone: times, memory and the longest step, beside their ranges and the last results
	$(BIN)/python -m tools.bench.decisions.decisions $(BENCH)
	$(BIN)/python -m tools.bench.decisions.gaps

bench-e2e: e2e-modules ## scheduling on the real control plane, beside kube-scheduler; BENCH=--record renews the page
	$(BIN)/python -m tools.bench.end_to_end $(BENCH)

lock: .venv ## renew requirements/*.txt: hashes, no addresses
	$(BIN)/python -m pip install --quiet uv
	$(BIN)/uv pip compile --group go --generate-hashes --universal --python-version 3.11 --no-header --upgrade -q -o requirements/go.txt
	$(BIN)/uv pip compile pyproject.toml --extra cli --generate-hashes --universal --python-version 3.11 --no-header --upgrade -q -o requirements/runtime.txt
	$(BIN)/uv pip compile pyproject.toml --all-extras --group dev --no-emit-package muster-localcluster --generate-hashes --universal --python-version 3.11 --no-header --upgrade -q -o requirements/dev.txt

version: .venv ## write VERSION everywhere, and make its section of the changelog
	@test -n "$(VERSION)" || { echo "name a version: make version VERSION=1.2.3" >&2; exit 2; }
	$(BIN)/python -m tools.release.numbers $(VERSION)

release: e2e-modules ## the files of a release of the last commit, under dist/; URL=... is where they will be
	@test -n "$(VERSION)" || { echo "name a version: make release VERSION=1.2.3" >&2; exit 2; }
	$(BIN)/python -m tools.release $(VERSION) $(if $(URL),--url=$(URL))

clean:
	rm -rf .venv .cache .mypy_cache .ruff_cache .pytest_cache .hypothesis
