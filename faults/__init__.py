"""Virtual time, a simulated network and disk, faults: all of it in `simulation/`."""
