"""Fault rules for a running cluster. [The page](docs/faults.md) describes all actions.

Rules as users write and see them:

- `actions.py`: the possible faults, and the directions and places of each
- `parsing.py`: makes a rule from a user's input; `codes.py`: request and response codes by name, with suggestions
- `showing.py`: a rule as one line of text

Decisions, without a clock or a socket:

- `matching.py`: the parts of a request that rules look at, and whether a rule matches it
- `book.py`: the rules of one server, and their decision about a request, a response, or a request of the server's own
- `delayed.py`: what waits for its delay, in its order

Actions, in a server that has rules (without rules, none of this is imported):

- `administration.py`: rules are added and removed; `site.py`: the server that has them
- `gate.py`: intercepts requests before their handlers; `outlet.py`: intercepts bytes that leave
- `bundles.py`: requests with many messages, some of them refused; `skew.py`: shifts the times that clients send
- `statuses.py`: responses with another code, after the request was carried out
"""
