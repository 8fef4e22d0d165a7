"""TLS on the ports of servers, and on the connections of clients. The first byte of a connection decides.

- `settings.py`: RocketMQ's names (`tls.server.mode`, `tls.client.trustCertPath` ...), for servers and for clients
- `session.py`: one session, without a socket; `layer.py`: puts it between a transport and a protocol
- `port.py`: the server's side: which connections may speak what, limits of handshakes; `network.py`: the client's side
- `contexts.py`: OpenSSL's contexts from files, loaded again when the files change; `failures.py`: what OpenSSL reports,
  in words
- `first_byte.py`: the same for a port of HTTP
- `certificates.py`: the certificate of a server that was given none; `authority.py`, `folder.py`: `staticfire
  certificates`

Only `settings.py` is imported by a start. OpenSSL costs 10 ms and 3 MiB, so the first TLS connection loads the rest.
"""
