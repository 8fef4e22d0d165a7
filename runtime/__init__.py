"""The only place that knows sockets, tasks, threads, time, identity, files, logging and configuration.

- `machine.py`: the machine as five seams; `live/`: the real one; `folders.py`: folders that survive a loss of power
- `state_file.py`: small files of state, read or refused

Connections:

- `connection.py`: what frames bring is handled, and answers leave; `dispatcher.py`: who handles which request
- `pending_answers.py`: who waits for which answer, and how long
- `unfinished.py`: frames that don't become whole, over all connections
- `server.py`: ports that accept connections; `pool.py`: connections that this process opened
- `addresses.py`, `reach.py`: addresses as people write them, and the one that peers are told
- `ports.py`: sockets that one process binds and another one serves

Processes:

- `service.py`: what runs for a while and ends in order, and what wakes its loops
- `process.py`: the main of a server; `light_start.py`: what it imports, and what it doesn't
- `spawning.py`: how processes are started, also early; `children.py`: those of a cluster, seen from who started them
- `signals.py`: signals, kept from the first moment on; `exit_codes.py`: how a process ends
- `loop_thread.py`: an event loop in a thread of its own
- `sampled_counter.py`: numbers that grow, and how fast
- `log.py`: one line per event; `log_sink.py`: where it goes, without ever waiting

Settings:

- `config.py`: fields and their values; `loading.py`: from flags, environment, file and defaults; `config_help.py`: help
  and example of the same
- `ranges.py`: how far the number of a setting may go
- `live_settings.py`: settings that administrators change while a server runs
- `foreign_conf.py`, `rocketmq_settings.py`: files that were written for RocketMQ, and all names that it takes
"""
