# The static program with what it calls: git, and a shell for build commands. The context is an unpacked release.
FROM debian:13-slim
RUN apt-get update \
    && apt-get install --yes --no-install-recommends ca-certificates git \
    && rm -rf /var/lib/apt/lists/*
COPY gate /usr/local/bin/gate
ENTRYPOINT ["gate"]
