"""What staticfire reaches on this machine, beside a bare echo server: `make bench`. Nothing here is imported by it."""
