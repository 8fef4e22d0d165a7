"""The only place that knows sockets, tasks, threads, time, identity, files, logging and configuration."""
