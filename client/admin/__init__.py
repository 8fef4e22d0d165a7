"""Administration: what an administrator reads and changes in a cluster.

- admin.py, clock.py: requests to nameservers and brokers; consume_mode.py: how a group gets a topic;
  attribute_changes.py: attributes of topics and groups
- dead_letter_queue.py: a group's dead letters; dead_letters.py: one of them; resending.py, resend_targets.py: as what,
  and where to, it is sent again
- group_survey.py: a group looked at from all sides; group_view.py: what there is to see, and its problems;
  holdings.py: who has which queues
- listing.py: all topics, all groups; peek.py: what is in a topic; look_ups.py: messages by id or key;
  consumption.py: which groups are past one
- journal.py: what happened on brokers, and what was requested of them; faults.py: what goes wrong there on purpose
"""
