"""Inputs whose truth is known."""
