"""Attention and matrix products on the CPU: tiles that stay in the cache, and their gradients."""
