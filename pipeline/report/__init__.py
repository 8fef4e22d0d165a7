"""A page of figures, plots and tables as one HTML file. This package doesn't use Spark.

- `page.py`: the content of a page, as plain values; `render.py`: its HTML
- `retries.py`, `waiting.py`: the sections about retries and about waiting times; `sweeping.py`: the page of a sweep;
  `consumption.py`, `owning.py`: the page about consumption
"""

from staticfire.pipeline.report.page import Column, KeyFigure, Page, Plot, Section, Table
from staticfire.pipeline.report.render import render, write_page

__all__ = ["Column", "KeyFigure", "Page", "Plot", "Section", "Table", "render", "write_page"]
