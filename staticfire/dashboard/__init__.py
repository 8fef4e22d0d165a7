"""The dashboard: pages for people, on the control endpoint. The first request for a page loads it.

- `site.py`: serves pages, actions, live parts, scripts and styles; `files.py`: the files
- `pages.py`: all pages, with their addresses; `addresses.py`: how an address is read and written
- `calls.py`: the calls of the control endpoint, which pages and actions use; `actions.py`: what a page can change;
  `warnings.py`, `cluster_warnings.py`: what an action will do
- `live.py`: parts of pages that are sent again when they have changed; `watch.py`: samples for charts and the overview
- `rendering.py`: templates and their filters; `shown.py`: how values are shown
- `views/`: what each page shows, made from responses of the control endpoint; no input and no output
- `templates/`, `static/`: HTML; scripts and styles, also those of others (static/README.md)
"""
