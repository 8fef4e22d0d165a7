"""The cluster as a client sees it: nameservers, routes, connections, heartbeats. Producers and consumers stand on it.

- cluster_client.py: what all of one program share; heartbeats.py: who is here; broker_time.py: the brokers' clock
- lost_brokers.py: brokers whose connection was lost, and when to look for them
- client_service.py: what each of them is, a service that works through it
- replies.py, transaction_checks.py: what brokers pass on, and ask, of this client's producers
- nameservers.py, route_cache.py, routes.py: which brokers there are, and what a topic's route means
- pull_answers.py: what an answer to a pull says; condition_check.py: do brokers filter by conditions
- blocking.py: how a class is used without `await`
- settings.py, queues.py, subscriptions.py, namespaces.py: values; wakeup.py: the wake-up of a loop
"""
