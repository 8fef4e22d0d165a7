"""The cluster as a client sees it: nameservers, routes, connections, heartbeats. Producers and consumers use it.

- cluster_client.py: what all producers and consumers of a program share; heartbeats.py: registers them with brokers;
  broker_time.py: the brokers' clock
- lost_brokers.py: brokers whose connection was lost, and when to look for them
- client_service.py: the base class of producers, consumers and admins; logged_service.py: that of all services here
- replies.py, transaction_checks.py: brokers' requests to this client's producers
- nameservers.py, route_cache.py, routes.py: which brokers there are, and what a topic's route means
- pull_answers.py: reads the response to a pull; condition_check.py: whether brokers filter by conditions
- blocking.py: the API without `await`
- program_errors.py: what a program's own functions raise: a failed call, or the end of the consumer
- settings.py, queues.py, subscriptions.py, namespaces.py: values; wakeup.py: wakes a loop
"""
