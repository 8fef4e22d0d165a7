"""A page of figures, plots and tables as one HTML file; no Spark in here.

- `page.py`: what a page says, as plain values; `render.py`: HTML of it
- `retries.py`, `waiting.py`: the sections about retries, and about waiting times; `sweeping.py`: the page of a sweep;
  `consumption.py`, `owning.py`: the page about consumption
"""

from staticfire.pipeline.report.page import Column, KeyFigure, Page, Plot, Section, Table
from staticfire.pipeline.report.render import render, write_page

__all__ = ["Column", "KeyFigure", "Page", "Plot", "Section", "Table", "render", "write_page"]
