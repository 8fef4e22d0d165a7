"""The only place that knows sockets, tasks, threads, the clock and identity of the machine, files, logging and configuration."""
