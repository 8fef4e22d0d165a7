"""Why nothing is consumed: what a cluster knows of a group, looked through for causes, in words.

- facts.py: what is known; gathering.py: asks for it
- findings.py: what one finding is, and the rules in the order of their likelihood; of_members.py, of_queues.py,
  of_offsets.py, of_messages.py, of_places.py, of_topics.py: the rules. Pure: facts in, findings out
- explanation.py: all of it, put together; explainer.py: for a client
"""
