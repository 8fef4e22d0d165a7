"""The control endpoint, asked by schemathesis: what its OpenAPI description allows, and what it doesn't.

`make test-control`. No answer may be a 500, or one that the description hasn't. What breaks the cluster on purpose, by
fault rules, has a round of its own with a fresh cluster: there servers that don't answer (502) are what was asked for.
"""
