"""Static topics: a fixed number of logical queues, mapped to queues of brokers.

A broker without static topics doesn't use this package. A queue id or an offset of a logical queue in a request is
translated before the ordinary handlers receive the request, and their responses are translated back. So everything that
is stored, committed and held refers to this broker's own queues.

A logical queue may be moved from broker to broker. It then consists of several items of the mapping, called stretches:
each is a range of logical offsets in one broker's queue. The broker of the last stretch leads the logical queue: it
stores the new messages, and answers all requests, if necessary by requests to the brokers of earlier stretches.

- `mapping.py`: computes logical and physical offsets; `acceptance.py`: decides which mappings are accepted
- `table.py`: the mappings of this broker, and their file
- `pulling.py`: translates pulls and their responses
- `translated_call.py`: a request with physical numbers whose response is translated
- `sends.py`: finds where a message for a logical queue is stored
- `offsets.py`: answers queries for offsets of a logical queue from all its stretches
- `peers.py`: requests to other brokers, which hold earlier stretches
- `front.py`: intercepts requests for logical queues before the ordinary handlers; `translator.py`: handles them
"""
