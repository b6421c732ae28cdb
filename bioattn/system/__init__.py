"""The machine: devices, threads, memory, signals, progress, torchrun, and what `bioattn doctor` examines."""
