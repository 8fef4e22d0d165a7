"""Simulated clusters spread over Spark's executors: one run per row of a table of seeds and changes.

- `plan.py`: what is run, as a table; pure
- `running.py`: one run as a row, on an executor; it never fails, what goes wrong is in the row
- `job.py`: the table through Spark to Parquet, and the figures of each combination
- `figures.py`: these figures as plain values; the page made of them is `report/sweeping.py`
"""
