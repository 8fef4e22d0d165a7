"""The control endpoint: what a test asks of a cluster over HTTP. `door.py` opens it, `site.py` answers."""
