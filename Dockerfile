# bioattn for the CPU: docker build -t bioattn:0.1.0 .
#
# The image has a plain shell, `ps` and no entry point, as Nextflow and Snakemake need it, and runs as a user of its own.
# A build for CUDA takes the same file: --build-arg TORCH_INDEX=https://download.pytorch.org/whl/cu126

FROM python:3.12-slim-bookworm AS build
WORKDIR /src
COPY pyproject.toml README.md LICENSE CHANGELOG.md ./
COPY bioattn ./bioattn
COPY cli ./cli
RUN python -m pip install --no-cache-dir "build==1.6.1" \
    && python -m build --wheel --outdir /wheels .

FROM python:3.12-slim-bookworm
ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu
ARG TORCH_VERSION=2.13.0

LABEL org.opencontainers.image.title="bioattn" \
      org.opencontainers.image.description="Attention models on biological sequences, with every attention map kept" \
      org.opencontainers.image.version="0.1.0" \
      org.opencontainers.image.licenses="Apache-2.0"

SHELL ["/bin/bash", "-o", "pipefail", "-c"]

# Nextflow measures tasks with ps.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends procps \
    && rm -rf /var/lib/apt/lists/*

COPY --from=build /wheels /wheels
# hadolint ignore=DL3013
RUN python -m pip install --no-cache-dir --index-url "$TORCH_INDEX" --extra-index-url https://pypi.org/simple "torch==$TORCH_VERSION" \
    && for wheel in /wheels/bioattn-*.whl; do python -m pip install --no-cache-dir "${wheel}[all]"; done \
    && rm -rf /wheels \
    && bioattn --version

# Pipelines run it as any user, who has no home folder here: caches go where anyone may write.
ENV HOME=/tmp \
    PYTHONNOUSERSITE=1
RUN useradd --uid 1000 --no-create-home --home-dir /tmp --shell /bin/bash bioattn \
    && install --directory --owner 1000 --group 1000 /work
USER 1000
WORKDIR /work
CMD ["bioattn", "--help"]
