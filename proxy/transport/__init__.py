"""gRPC over HTTP/2: how calls arrive and answers leave.

- `calls.py`: what a service is written against
"""
