"""The machine: device, threads, memory, signals, progress, shards of a job; and `bioattn doctor`."""
