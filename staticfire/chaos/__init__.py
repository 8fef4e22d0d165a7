"""Run a user's program under the faults that a correct RocketMQ may have: `staticfire chaos -- COMMAND`.

Pure, from the top:

- `usage.py`: which topics, groups and requests a program uses, learnt from a run without faults
- `weather.py`: plans the faults of a seed; `kinds.py`: the kinds of faults, and how one of each kind is drawn
- `planned_fault.py`: one fault, as data, as a command and as Python
- `evidence.py`: what the brokers saw, in tables; which messages a group has finished, judged by what a broker can see
- `promises.py`, `ordering.py`, `sends.py`, `each.py`: the checkers, which conclude only what the evidence proves;
  `broken.py`: their result; `doubles.py`: which second messages prove that work was done twice; `lost_answers.py`:
  which sends got no response because of a fault
- `settling_time.py`: when a program that doesn't end has had its time to consume what is left
- `shrinking.py`: fewer faults with which a program still fails
- `report.py`: prints what happened, as text or JSON; `repeating.py`: a failing run as a command and as a test
- `page.py`: a run as a page, `drawing.py`: its drawing, `story.py`: the life of one message

With a cluster:

- `connections.py`: connections with an access key, through TLS or not
- `journals.py`: reads the brokers' journals while a program runs; `stored.py`: reads what is stored
- `member.py`: a member that joins a group, consumes nothing and leaves
- `injection.py`: carries the planned faults out and counts which of them hit
- `asserting.py`: `--each` as an assertion in a test
- `topics.py`: the topics of `--topic`
- `running.py`: one run of the program; `session.py`: all runs of one command
"""
