"""A program of yours under the faults that a correct RocketMQ may have: `staticfire chaos -- COMMAND`.

Pure, from the top:

- `usage.py`: what a program uses, learnt from a run without faults
- `weather.py`: from a seed and what the program uses to faults; `kinds.py`: the kinds of faults
- `strikes.py`: one fault, as data, as a command and as Python
- `evidence.py`: what the brokers saw, in tables, and which messages a group has finished, as far as a broker can know
- `promises.py`, `ordering.py`, `sends.py`, `each.py`: the checkers, which conclude only what the evidence proves;
  `broken.py`: their result; `doubles.py`: which second messages prove that work was done twice; `lost_answers.py`:
  which sends faults can have left without an answer
- `shrinking.py`: fewer faults with which a program still fails
- `telling.py`: the output; `repeating.py`: a failing run as a command and as a test
- `page.py`: a run as a page, `drawing.py`: its drawing, `story.py`: the life of one message

With a cluster:

- `journals.py`: reads the brokers' journals while a program runs; `stored.py`: reads what is stored
- `member.py`: a member that joins a group, consumes nothing and leaves
- `striking.py`: carries the faults out and counts which of them hit
- `asserting.py`: `--each` as an assertion in a test
- `topics.py`: the topics of `--topic`
- `running.py`: one run of the program; `session.py`: all runs of one command
"""
