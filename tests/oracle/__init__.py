"""The same requests to a RocketMQ and to staticfire (every difference is a bug, or is explained), and our client on it.

    make test-oracle                             # all of it, with `run.sh`; or by hand:
    tools/oracle.sh start /tmp/oracle            # a real RocketMQ; prints its addresses
    python -m tests.oracle 127.0.0.1:19876 [--only 'pull*']
    python -m tests.oracle.own_client 127.0.0.1:19876

`cases/` has the requests, as data, one file per family, `conditions.py` a table for one of them;
`explained.py` the differences that are meant to be, and why.
`step.py` is what one consists of, `exchange.py` plays them against one side, `normal.py` takes out what differs from
run to run, `compare.py` judges. Our client's turn is `own_client.py`, with `own_pulls.py` for consumers that pull,
`own_groups.py` for dead letters and groups, `own_pops.py` for those that pop; its settings are in `patience.py`.
`own_copy.py` copies a topic from there, `own_dashboard.py` looks at its pages, `own_tls.py` uses TLS, and
`fixture_tests.py` has tests that use the fixture on it.
`access.py` is the same for signed requests, to a RocketMQ that checks signatures and policies.
`replica_routes.py` lets fake masters and slaves come and go at both nameservers; `replicas/` compares a real
master and slave with ours.
`grpc/` is the same for gRPC: 5.3.3's proxy, and our endpoint.
Exit code 1: there are differences without an explanation, or explanations that nothing needs any more.
"""
