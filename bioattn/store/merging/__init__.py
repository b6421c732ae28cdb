"""Putting the parts of a sharded run together: the bytes of the run by one process, or a refusal."""
