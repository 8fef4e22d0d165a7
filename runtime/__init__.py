"""The only package that uses sockets, tasks, threads, time, identity, files, logging and configuration directly.

- `machine.py`: the machine as five seams; `live/`: the real one; `folders.py`: folders that survive a loss of power
- `state_file.py`: small state files, which are read as a whole or refused

Connections:

- `connection.py`: handles the requests of frames and sends responses; `dispatcher.py`: the handler of each request
- `long_answers.py`: sends a response from where it is, without copies
- `pending_answers.py`: our requests that wait for a response, each until its deadline; a late timer extends it
- `credentials.py`: an access key with its secret; `local_keys.py`: that of a cluster of this user
- `unfinished.py`: incomplete frames, over all connections
- `server.py`: ports that accept connections; `pool.py`: connections that this process opened
- `tls/`: TLS on both; `client_machine.py`: a machine whose connections speak it
- `addresses.py`, `reach.py`: addresses as users write them, and the address that peers must use
- `ports.py`: sockets that one process binds and another one serves; `port_holder.py`: which program has a port

Processes:

- `service.py`: a service that runs for a while and ends in order, and the alarm that wakes its loops
- `process.py`: the main function of a server; `light_start.py`: which imports it avoids, and its garbage collector
- `spawning.py`: starts processes, also early; `siblings.py`: lets several of them import once; `children.py`: the
  processes of a cluster, for the process that started them
- `signals.py`: signals as a queue; `exit_codes.py`: how a process ends
- `loop_thread.py`: an event loop in a separate thread
- `failing_blocks.py`: observers of `with` blocks that end by an exception
- `sampled_counter.py`: counters and their rates
- `log.py`: one line per event; `log_sink.py`: writes the lines without ever waiting; `repeated_lines.py`: limits the
  lines about refused connections

Settings:

- `config.py`: fields and their values; `loading.py`: values from flags, environment, file and defaults;
  `config_help.py`: help and an example file for them
- `ranges.py`: the allowed range of a setting's number
- `live_settings.py`: settings that administrators change while a server runs
- `foreign_conf.py`, `rocketmq_settings.py`: configuration files written for RocketMQ, and all setting names of RocketMQ
"""
