"""What a broker has, put away under a name and put back. staticfire's own; loaded with the first request for it.

A broker saves and restores with its files closed, as after an orderly stop: its core ends, files are copied, another
core starts from the folder as after any start. Ports and connections stay, and requests that come meanwhile wait: it
takes some twenty milliseconds, and the time that the copy takes.

- `folder.py`: the files: what belongs to a snapshot, how it is put back so that a kill does no harm
- `info.py`: what a snapshot says of itself
- `gate.py`: requests that come meanwhile
- `change.py`: one such change from its request to its answer
- `going_on.py`: where connected consumers go on
"""
