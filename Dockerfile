# The image of every process: docker build -t muster:0.2.0 .
FROM python:3.11-slim AS build
WORKDIR /src
COPY requirements/runtime.txt requirements/
RUN python -m venv /opt/muster \
 && /opt/muster/bin/pip install --no-cache-dir --no-compile --require-hashes --requirement requirements/runtime.txt
COPY . .
# The context has no .git. That of a release has its commit in this file already.
ARG COMMIT=
RUN if [ "$COMMIT" ]; then echo "$COMMIT" > kube/base/commit.txt; fi
RUN /opt/muster/bin/pip wheel --no-cache-dir --no-deps --wheel-dir /wheels . \
 && /opt/muster/bin/pip install --no-cache-dir --no-deps /wheels/*.whl \
 && /opt/muster/bin/pip uninstall --yes pip

FROM python:3.11-slim
COPY --from=build /opt/muster /opt/muster
ENV PATH=/opt/muster/bin:$PATH PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
USER 65532:65532
ENTRYPOINT ["muster"]
