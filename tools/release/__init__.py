"""`make release-check`: whether a release can be built, installed and used, as a user without a checkout does it.

- `__main__.py`: the steps and their results
- `building.py`: sdist and wheels, built twice; twine's check
- `pythons.py`: the interpreters of this machine
- `installing.py`: empty environments with one installation each
- `trying.py`: what has to work in an environment; `spark_program.py`: a program for spark-submit
- `running.py`: commands, and their output when they fail
"""
