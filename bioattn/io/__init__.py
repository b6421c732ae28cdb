"""Files and folders written whole or not at all, locks, seals, the watch over inputs, unpacking."""
