"""What bioattn finds where it runs: devices, threads, memory, libraries; behind `bioattn doctor`."""
