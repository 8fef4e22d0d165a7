"""The control endpoint: tests inspect and control a cluster over HTTP.

- `port.py`: opens the endpoint; `site.py`: serves requests; `half_requests.py`: closes incomplete requests;
  `unreadable.py`: refuses bytes that aren't requests; `tls.py`: TLS on the same port
- `access.py`, `hosts.py`: which requests are accepted; `view.py`: the interface of a cluster
- `routes.py`: how a route is declared; `all_routes.py`: all routes; `controlled_cluster.py`: the cluster as handlers
  see it
- `openapi.py`: the description of all routes, for programs and for people
- `cluster.py`: the cluster as a whole; `health.py`: whether clients can use it; `reset.py`: empty the cluster;
  `snapshots.py`: save and restore it; `putting_back.py`: the routes for that; `whole_cluster.py`: the brokers that
  both concern
- `metrics.py`: for Prometheus; `messages.py`: topics and messages; `group.py`: consumer groups
- `topic_changes.py`, `group_changes.py`: create, change and delete topics and groups; `sending.py`: send a message
- `clock.py`: message time; `dlq.py`: dead letters; `journal.py`: recorded events and requests
- `faults.py`: fault injection; `users.py`: users and policies; `replication.py`: masters and slaves
- `overview.py`: the cluster in one response; `brokers.py`: brokers and their load; `topic_facts.py`: one topic;
  `clients.py`: producers and members; `waiting.py`: what a
  group can't get yet; `offset_changes.py`: reset offsets; `timed_messages.py`: messages by time;
  `waiting_messages.py`: all messages that wait, or are popped; `traces.py`: what clients trace
- `listed.py`: pages of long lists; `refusals.py`: errors and their status; `remote_view.py`: a cluster elsewhere
- `dashboard_place.py`: where the pages for people are; `login_cookie.py`: the cookie of their login
- `callers.py`: work that ends when its caller leaves
"""
