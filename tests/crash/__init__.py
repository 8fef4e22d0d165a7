"""A broker is killed, or its machine loses power, at any step and any moment; what it had promised is still true.

    python -m tests.crash [--seeds 1000] [--first 0]

- `lives.py`: one seed: a broker's lives one after the other, each with its workload and its end
- `workload.py`: what clients ask of it, all mixed; `ledger.py`: what they were told, and what follows from that
- `striking.py`: the moment at which a life ends, and failing disks before it
- `losses.py`: files of queues that are lost, cut or zeroed while no broker runs
- `__main__.py`: many seeds; `test_crash.py`: a few, and proof that what is broken on purpose is found

The same seed does the same. What must be true:

- nothing acknowledged with SYNC_FLUSH is lost; with ASYNC_FLUSH only what the disk had not taken yet, with the power
- nothing is stored twice, nothing comes back that was refused, deleted, removed by retention or found missing before
- no offset is given to two messages, unless the topic was deleted or the disk had not taken the first one
- files of queues that are lost between an orderly stop and a start cost nothing
- a queue never shows a message whose record is gone, and shows each at the offset that its sender was told
- no group stands behind the end of its queue
- a delayed message is delivered once
- each start succeeds, loses nothing that was safe, and sends work after it
"""
