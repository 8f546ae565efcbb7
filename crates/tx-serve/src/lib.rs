//! HTTP server for translation bundles.
