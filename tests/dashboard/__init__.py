"""The dashboard.

- `test_shown.py`, `test_picture.py`: what pages show, without a cluster; `test_pages.py`: pages over HTTP
- `test_in_browser.py`: pages in a Chromium, which `browser.py` controls; `members.py`: a cluster with something to see
- `screenshots.py`: the pictures of the docs
"""
