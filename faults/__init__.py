"""Faults by rule, on a cluster that runs. [The page](docs/faults.md) has all actions.

Said and shown:

- `actions.py`: what can go wrong, and how each of these goes with directions and places
- `parsing.py`: a rule from what a person says; `codes.py`: request and response codes by name, and what was meant
- `showing.py`: a rule in a line

Decided, without a clock or a socket:

- `matching.py`: what a rule sees of a request, and whether it means it
- `book.py`: the rules of one server, and what they say about a request, an answer, a request of the server's own

Done, in a server that has rules (without any, none of this is loaded):

- `desk.py`: rules come and go; `site.py`: the server that has them
- `gate.py`: requests on their way to their handlers; `outlet.py`: bytes on their way out
- `bundles.py`: many messages of one request, some of them refused; `skew.py`: what clients say of time, moved
"""
