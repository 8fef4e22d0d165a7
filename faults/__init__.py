"""Virtual time, a simulated network and disk, faults."""
