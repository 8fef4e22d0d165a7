"""Measurements of single parts, in one process: what to look at when a figure of the whole has moved."""
