"""gRPC over HTTP/2: how calls arrive and answers leave.

- `calls.py`: what a service is written against; `limits.py`: what clients may take
- `endpoint.py`: the port; `entrance.py`: a connection from its first byte
- `first_bytes.py`: who speaks; `tls.py`, `certificate.py`: TLS on the same port
- `grpc_connection.py`: one client's calls; `running_call.py`: one of them; `grpc_words.py`: lengths, deadlines, ends
- `http2.py`: HTTP/2 of a server, without input and output; `outflow.py`: what leaves, and when; `frames.py`: its frames
- `floods.py`: how many frames of a kind a client may send
- `header_block.py`: fields, unpacked and packed
"""
