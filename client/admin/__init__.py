"""Administration, both ways: what an administrator asks of a cluster, and what a consumer answers to one.

- admin.py, clock.py: asked of nameservers and brokers
- admin_requests.py, consumer_admin.py: asked of this client by way of a broker
"""
