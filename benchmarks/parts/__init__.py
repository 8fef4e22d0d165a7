"""Measurements of single parts, in one process: what to look at when a figure of the whole has moved.

- `burst.py`: a broker behind one connection; `store_append.py`: the store alone
- `producer_encode.py`: a producer's sends; `consume_path.py`: from a pull's answer to a listener that is done
- `journal.py`: what a broker's journal costs it
- `request_decoding.py`: the longest that one frame of each request kind takes to read
- `unit_costs.py`: what one more broker, client or topic costs on the wire
"""
