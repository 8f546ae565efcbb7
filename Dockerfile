# Server for translation bundles: `docker build -t tx .`, then
# `docker run --rm -p 127.0.0.1:5000:5000 -v ./runs/en-de:/models/en-de:ro tx --model en-de=/models/en-de`
FROM rust:1.95-bookworm AS build
WORKDIR /tx
COPY . .
RUN --mount=type=cache,target=/usr/local/cargo/registry --mount=type=cache,target=/tx/target \
    cargo build --release --locked --package translate --no-default-features --features cpu,serve \
    && cp target/release/translate /translate

FROM debian:bookworm-slim
# For the health check.
RUN apt-get update && apt-get install --yes --no-install-recommends curl && rm -rf /var/lib/apt/lists/*
COPY --from=build /translate /usr/local/bin/translate
COPY LICENSE-APACHE LICENSE-MIT /usr/share/doc/tx/
USER 65532:65532
EXPOSE 5000
HEALTHCHECK --interval=10s --timeout=2s CMD ["curl", "--fail", "--silent", "http://127.0.0.1:5000/health/live"]
STOPSIGNAL SIGTERM
# In a container, the network of the container separates the server from others.
ENTRYPOINT ["translate", "serve", "--listen", "0.0.0.0:5000"]
