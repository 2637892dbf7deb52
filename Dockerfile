# The image of every process: docker build --build-arg COMMIT=$(git rev-parse HEAD) -t muster:0.3.0.dev0 .
# The first stage is the same Python with the tools of a compiler, of which strip is used.
FROM python:3.11 AS build
WORKDIR /src
COPY requirements/runtime.txt requirements/
RUN python -m venv /opt/muster \
 && /opt/muster/bin/pip install --no-cache-dir --no-compile --require-hashes --requirement requirements/runtime.txt
COPY . .
# The context has no .git. That of a release has its commit in this file already.
ARG COMMIT=
RUN if [ "$COMMIT" ]; then echo "$COMMIT" > kube/base/commit.txt; fi
RUN /opt/muster/bin/pip wheel --no-cache-dir --no-deps --wheel-dir /wheels . \
 && /opt/muster/bin/pip install --no-cache-dir --no-compile --no-deps /wheels/*.whl \
 && /opt/muster/bin/pip uninstall --yes setuptools pip
# Tests (NumPy's _simd is one), type stubs, sources and headers of C, NumPy's build tools and debug symbols are a quarter
# of what pip installs. NumPy's libraries are stripped already, and auditwheel rewrote them so that strip would break
# them. Modules are compiled once, here: no process may write.
RUN find /opt/muster/lib -depth -type d \( -name tests -o -name __pycache__ -o -path '*/numpy/f2py' -o -path '*/numpy/distutils' \) -exec rm -rf {} + \
 && find /opt/muster/lib \( -name '*.pyi' -o -name '*.pyx' -o -name '*.pxd' -o -name '*.[ah]' -o -name '_simd.*.so' \) -delete \
 && if command -v strip; then \
      find /opt/muster/lib -name '*.so' ! -path '*/numpy*' -exec strip --strip-unneeded {} +; fi \
 && python -m compileall -q --invalidation-mode unchecked-hash /opt/muster/lib

FROM python:3.11-slim
COPY --from=build /opt/muster /opt/muster
ENV PATH=/opt/muster/bin:$PATH PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
USER 65532:65532
ENTRYPOINT ["muster"]
