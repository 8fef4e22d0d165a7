"""Who a client is, and what it may do. RocketMQ: module auth (ACL 2.0), and the older module acl (ACL 1.0).

While no user, policy or setting requires it, nothing here is called. Otherwise the dispatcher passes each request to
`gate.py`: the signature is checked (`judging.py`), then the user's policies (`policies.py`) for what the request needs
(`needs.py`). These three, `book.py` and `plain_acl.py` are pure.

- `resources.py`: names with a type, like `Topic:orders`, and patterns of them; `policies.py`: what policies decide
- `users.py`: users and their secrets; `book.py`: users and policies together, as they are kept on disk
- `needs.py`: what each request needs: the permission table
- `judging.py`: is the signature right, and may the user do it; `refusals.py`: which requests were refused lately
- `plain_acl.py`, `plain_file.py`: the rules of RocketMQ 4 (plain_acl.yml); `plain_administration.py`: requests that
  read and change them
- `gate.py`: applies all this to requests; `administration.py`: requests that change users and policies;
  `peers.py`: which client uses which access key; `control.py`: creates all of it, and starts or stops the checks
"""
