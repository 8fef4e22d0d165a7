"""Measurements of single parts, in one process: for finding the cause when an overall figure has changed.

- `access.py`: TLS, signatures and policies
- `burst.py`: a broker with one connection; `store_append.py`: the store alone
- `producer_encode.py`: a producer's sends; `consume_path.py`: from a pull's response to the end of the listener's call
- `journal.py`: the cost of a broker's journal; `faults_of_chaos.py`: the cost of a thousand faults a minute
- `request_decoding.py`: the longest time to decode one frame of each request kind
- `unit_costs.py`: the cost of one more broker, client or topic on the wire
"""
