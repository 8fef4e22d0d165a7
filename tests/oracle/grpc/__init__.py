"""The same gRPC calls to RocketMQ's proxy with its broker, and to ours: part of `make test-oracle`.

- `side.py`: one of the two; `requests.py`: what is sent
- `refusals.py`: single calls and what they are answered with; `behaviours.py`: what takes several
- `explained.py`: differences that are meant to be
"""
