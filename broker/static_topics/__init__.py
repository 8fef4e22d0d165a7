"""Static topics: logical queues that stay the same in number, mapped to queues of brokers.

A broker that has no static topic never comes here. Whatever a client says of a logical queue (queue id, offset) is
translated before the ordinary handlers see it, and their answers are translated back: what is stored, committed and
held is always in numbers of this broker's own queues.

- `mapping.py`: the arithmetic of logical and physical offsets; `acceptance.py`: which mappings are accepted
- `table.py`: the mappings of this broker, and their file
- `pulling.py`: what the answer to a pull means in the logical queue
- `translated_call.py`: a request in physical numbers whose answer is translated
- `sends.py`: where messages for a logical queue are stored
- `offsets.py`: questions about the offsets of a logical queue, answered from all its stretches
- `peers.py`: requests to other brokers, which hold earlier stretches
- `front.py`: stands before the handlers of pulls and offsets; `translator.py`: has them do what it takes
"""
