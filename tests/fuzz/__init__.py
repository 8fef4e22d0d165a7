"""Real frames and records, spoilt in every way, by the million: nothing but ProtocolError, and no memory that grows.

    python -m tests.fuzz [--frames 200000] [--seed 1]

`corpus.py` has the frames and records, `mutations.py` spoils them, `reading.py` and `records.py` read what came of it;
`conversations.py` has what gRPC clients say; `compiled_parts.py` spoils what enters the compiled functions, which
`compiled_inputs.py` has, and `guarded.py` lays out in memory;
`__main__.py` does that often, and `live.py` asks a whole cluster, too; `test_fuzz.py` is the short form. The same seed
spoils the same.
- `test_compiled_parts.py`, `test_compiled_memory.py`: the compiled functions with every bit turned; nothing leaks
- `test_numbers.py`: numbers at the ends of their ranges and beyond, across the codecs
"""
