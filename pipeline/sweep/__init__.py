"""Simulated clusters on Spark's executors: one run per row of a table of seeds and changed settings.

- `plan.py`: the runs, as a table; pure
- `running.py`: one run as a row, on an executor; it never fails, since errors are in the row
- `job.py`: runs the table on Spark, writes Parquet, and computes the figures of each combination
- `figures.py`: these figures as plain values; `report/sweeping.py` makes a page of them
"""
