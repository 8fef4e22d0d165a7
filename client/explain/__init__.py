"""Explains why nothing is consumed: looks for causes in all facts about a group, and describes them.

- facts.py: the facts; gathering.py: queries them, replicas.py: those about masters and slaves
- findings.py: one finding, and how rules are applied; of_members.py, of_queues.py, of_offsets.py, of_messages.py,
  of_places.py, of_replicas.py, of_topics.py, of_access.py: the rules. Pure: facts in, findings out
- explanation.py: all rules in order of likelihood, and the result; explainer.py: explains a group for a client
"""
