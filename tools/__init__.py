"""Small scripts of the project: they run as `python -m tools.<name>` from its top folder."""
