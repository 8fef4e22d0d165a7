"""`make test-sanitizers`: the compiled parts (protocol/_compiled*.c) under gcc's address and behaviour sanitizers.

| module | what |
| --- | --- |
| `build.py` | compiles an instrumented twin, and a canary, into .venv/.sanitized; the ordinary build stays as it is |
| `canary.c` | a module with one fault of each kind, to show that each of them ends a run |
| `plugin.py` | has pytest load the instrumented twin instead of the ordinary one |
| `__main__.py` | checks the canary, then runs the tests that enter compiled functions |
"""
