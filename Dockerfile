# chaoskit as a container: what judges, not what trains. The job under test runs in an image of its own (--env docker --image).
#
#   docker build --tag chaoskit .
#   docker run --rm chaoskit --version
#
# It has what changes the network of a container, too: it can be its own --helper-image.
# docs/how-to/staging-cluster.md says how docker-compose.yml uses it, and how large it is.
ARG BASE=python:3.11.13-slim-bookworm

FROM ${BASE} AS build
# Where pip finds packages besides its default, such as a mirror of your own.
ARG PIP_INDEX_URL
ARG PIP_EXTRA_INDEX_URL
# `docker` is what --env docker needs. `docker,torch` adds torch, for jobs that run in this container (--env local).
ARG EXTRAS=docker
COPY . /source
# pip stays in this stage. What it installed is written down: the labels name the file.
RUN python -m pip wheel --no-cache-dir --no-deps --wheel-dir /wheels /source \
 && python -m venv --without-pip /opt/chaoskit \
 && python -m pip --python /opt/chaoskit/bin/python install --no-cache-dir \
        "$(echo /wheels/chaoskit-*.whl)[${EXTRAS}]" \
 && python -m pip --python /opt/chaoskit/bin/python list --format=freeze > /opt/chaoskit/pip-freeze.txt

FROM ${BASE}
ARG BASE
LABEL org.opencontainers.image.title="chaoskit" \
      org.opencontainers.image.description="Prove that a training job survives what will happen to it" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.base.name="${BASE}" \
      chaoskit.packages="/opt/chaoskit/pip-freeze.txt"
# nft for cuts, ip for slow links. A base that has both needs no packages.
RUN { command -v nft && command -v ip; } > /dev/null \
 || { apt-get update && apt-get install -y --no-install-recommends nftables iproute2 && rm -rf /var/lib/apt/lists/*; }
COPY --from=build /opt/chaoskit /opt/chaoskit
# Whoever starts it may choose another user: nothing that it needs belongs to this one.
RUN useradd --create-home --uid 1000 chaoskit
ENV PATH=/opt/chaoskit/bin:${PATH} PYTHONUNBUFFERED=1 HOME=/tmp
WORKDIR /tmp
USER chaoskit
ENTRYPOINT ["chaoskit"]
CMD ["--help"]
