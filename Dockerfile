# Server for translation bundles. The image contains a program of a release, for each architecture in `dist`:
#
#     mkdir -p dist/amd64 && cp txmt-0.1.0-x86_64-unknown-linux-musl/txmt dist/amd64
#     docker build -t tx .
#     docker run --rm -p 127.0.0.1:5000:5000 -v ./runs/en-de:/models/en-de:ro tx --model en-de=/models/en-de
FROM debian:bookworm-slim
ARG TARGETARCH=amd64
# For the health check.
RUN apt-get update && apt-get install --yes --no-install-recommends curl && rm -rf /var/lib/apt/lists/*
COPY dist/${TARGETARCH}/txmt /usr/local/bin/txmt
COPY LICENSE-APACHE LICENSE-MIT /usr/share/doc/tx/
USER 65532:65532
EXPOSE 5000
HEALTHCHECK --interval=10s --timeout=2s CMD ["curl", "--fail", "--silent", "http://127.0.0.1:5000/health/live"]
STOPSIGNAL SIGTERM
# In a container, the network of the container separates the server from others.
ENTRYPOINT ["txmt", "serve", "--listen", "0.0.0.0:5000"]
