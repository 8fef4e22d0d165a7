"""h2spec, the conformance test of HTTP/2, against a gRPC endpoint that runs: `make test-http2`."""
