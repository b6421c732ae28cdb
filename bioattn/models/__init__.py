"""Models and the folder a trained one lives in."""
