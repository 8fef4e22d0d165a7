"""Administration, both ways: what an administrator asks of a cluster, and what a consumer answers to one.

- admin.py, clock.py: asked of nameservers and brokers; consume_mode.py: how a group gets a topic;
  attribute_changes.py: what topics and groups have beside
- dead_letter_queue.py: a group's dead letters; dead_letters.py: one of them; resending.py, resend_targets.py: as what,
  and where to, it is sent again
- group_survey.py: a group looked at from all sides; group_view.py: what there is to see, and what is wrong with it;
  holdings.py: who has which queues
- listing.py: all topics, all groups; peek.py: what is in a topic; look_ups.py: messages by id or key;
  consumption.py: which groups are past one
- journal.py: what happened on brokers, and what was asked of them; faults.py: what goes wrong there on purpose
- admin_requests.py: asked of this client by way of a broker; consumer_admin.py, lite_pull_admin.py,
  simple_admin.py: its consumers
- running_info.py, stacks.py: what consumers say of themselves
"""
