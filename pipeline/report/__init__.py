"""A page of figures, plots and tables as one HTML file; no Spark in here."""

from staticfire.pipeline.report.page import Column, KeyFigure, Page, Plot, Section, Table
from staticfire.pipeline.report.render import render, write_page

__all__ = ["Column", "KeyFigure", "Page", "Plot", "Section", "Table", "render", "write_page"]
