"""What bioattn finds where it runs: devices, threads, memory, libraries, folders; behind `bioattn doctor`."""
