"""gRPC over HTTP/2: how requests arrive and responses leave.

- `calls.py`: the interface between services and this package; `limits.py`: limits for clients
- `endpoint.py`: the port; `entrance.py`: a connection from its first byte
- `first_bytes.py`: recognises the client's protocol; TLS on the same port: `runtime/tls/`
- `grpc_connection.py`: one client's calls; `running_call.py`: one call; `grpc_words.py`: message lengths, deadlines,
  status fields
- `http2.py`: an HTTP/2 server without input and output; `call_events.py`: what it returns; `outflow.py`: what it
  sends, and when; `frames.py`: frames
- `floods.py`: how many frames of a kind a client may send
- `header_block.py`: decodes and encodes header fields
"""
