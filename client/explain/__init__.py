"""Explains why nothing is consumed: looks for causes in all facts about a group, and describes them.

- facts.py: the facts; gathering.py: queries them, replicas.py: those about masters and slaves,
  journal_reading.py: those in brokers' journals
- findings.py: one finding, and how rules are applied
- the rules, which are pure (facts in, findings out): of_members.py (none, silent, slow, without a queue); of_queues.py
  (locked, blocked by a message, retries); of_offsets.py (resets, illegal offsets, the start of a new group);
  of_messages.py (delayed, in a transaction, dead, wrong tag or condition); of_places.py (popped, refused pulls,
  unreachable brokers); of_replicas.py (master away, slave behind); of_topics.py (missing, no permission, empty, fault
  rules); of_access.py (key, signature, policy)
- explanation.py: all rules in order of likelihood, and the result; explainer.py: explains a group for a client
"""
