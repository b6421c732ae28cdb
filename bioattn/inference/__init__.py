"""The streaming runner behind `run` and `export`."""
