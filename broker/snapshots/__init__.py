"""The data of a broker, saved under a name and restored. staticfire's own; loaded with the first request for it.

A broker saves and restores with its files closed, as after an orderly stop: its core ends, the files are copied, and a
new core starts from the folder as usual. Ports and connections are kept, and requests that arrive meanwhile wait. This
takes some twenty milliseconds, plus the time of the copy.

- `folder.py`: the files of snapshots; `plan.py`: what belongs to one, and a restore that tolerates a kill
- `info.py`: the description of a snapshot
- `gate.py`: holds requests that arrive meanwhile
- `change.py`: saves, restores or removes a snapshot, from request to response
- `reset_consumers.py`: lets connected consumers continue at the restored offsets
"""
