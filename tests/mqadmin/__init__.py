"""RocketMQ's own mqadmin against a cluster of staticfire: each command, and what its output must say.

    python -m tests.mqadmin

`calls.py` has the commands, as data; `__main__.py` plays them and prints a table; `java.py` runs the Java programs:
mqadmin, all commands in one Java machine (`Admin.java`), and a real producer and a real consumer for them to look at
(`Member.java`); `ours.py` has a consumer of our own beside them; `test_static_topics.py` has the tool map logical
queues over three brokers while Java clients use them (`StaticTopics.java`); `test_tls.py` has them use TLS
(`Tls.java`). mqadmin exits with 0 when it fails, too, so
its output is what counts. Many commands take three seconds, here as with a real RocketMQ: their client waits for that.
"""
