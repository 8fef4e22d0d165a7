"""TLS on every port: what is accepted, certificates, the commands.

- `test_ports.py`: modes, versions, bad handshakes, limits; `test_certificates.py`: who trusts which certificate
- `test_own_connections.py`: the files for connections that servers open
- `test_clients.py`: our clients, fault rules, the fixture, Spark's options
- `test_commands.py`: `staticfire certificates`, and whole clusters; `stand.py`: what they share
- RocketMQ's own clients: `tests/mqadmin/test_tls.py`
"""
