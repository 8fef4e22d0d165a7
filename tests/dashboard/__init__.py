"""The dashboard.

- `test_shown.py`, `test_picture.py`: what pages show, without a cluster; `test_pages.py`: pages over HTTP
- `test_injection.py`: names and texts that are no HTML; `test_forms.py`: forms that can't be used
- `test_search.py`: lists, a search, a message
- `test_other_clusters.py`: pages of clusters with slaves, with users, with TLS
- `test_waiting_pages.py`: what waits, traces, changes, things that are gone
- `test_live.py`: live parts and who follows them; `test_listed.py`: pages of long lists; both without a cluster
- `test_in_browser.py`: pages in a Chromium, which `browser.py` controls and `conftest.py` opens; `members.py`: a
  cluster with something to see
- `test_conditions_in_browser.py`: ten thousand topics, servers that are gone, scripts in messages;
  `test_gone_in_browser.py`: a cluster, its dashboard, or what they show goes away and comes back;
  `test_failures_in_browser.py`: filters whose calls fail, logins that are over
- `test_silent_brokers.py`: what pages show when a broker doesn't respond
- `test_warnings.py`: what an action's page shows before the action
- `screenshots.py`: the pictures of the docs
"""
