"""Administration: what an administrator reads and changes in a cluster.

- admin.py, clock.py: requests to nameservers and brokers; consume_mode.py: whether a group pulls or pops a topic;
  attribute_changes.py: attributes of topics and groups; creating.py,
  creating_topics.py, creating_groups.py: create, change and delete them, for people
- dead_letter_queue.py: a group's dead letters; dead_letters.py: one of them; letter_pages.py: a part of them in order;
  letter_search.py: those with a text; resending.py, resend_targets.py: the form and the queue in which it is sent
  again; resend_run.py: sends them; resend_claim.py: only one program at a time resends all
- connections.py: the members that brokers report; group_survey.py: collects everything about a group; group_view.py:
  the result, and its problems; holdings.py: which member has which queues
- replica_choice.py: which replica of a broker a request goes to
- listing.py: all topics, all groups; peek.py: messages of a topic; look_ups.py: messages by id or key; consumption.py:
  which groups have consumed a message
- totals.py: all topics, groups and waiting messages, by one request to each broker
- access.py: users and policies
- replica_view.py: how masters and slaves are shown
- journal.py: events on brokers, and requests to them; faults.py: injected faults
"""
