"""Broken on purpose: variants of our own code, each of which simulations have to find.

- `mutants.py`, `pop_mutants.py`, `judged_mutants.py`: the variants; `loss_mutants.py`: about lost power and late
  commits; `replica_mutants.py`: about masters and slaves; `kind_mutants.py`: those that only further kinds of workloads
  find; `foreign_mutants.py`: those of somebody who hadn't read the checkers; `promise_mutants.py`: contents, features
  that never work, and delays that faults excused; `share_mutants.py`: queues and threads of members;
  `look_up_mutants.py`: searches by id and key
- `finding.py`: which seed finds one; `known.json`: the seeds that do
- `__main__.py`: looks for them anew (`make mutants`); `test_mutants.py`: whether each can still be made

A mutant that no seed finds says that a checker is blind, or that no fault ever comes at the moment that matters.
"""
