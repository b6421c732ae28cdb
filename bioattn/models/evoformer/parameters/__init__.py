"""Published and own parameters of MSA/pair models: names, layouts, reading and writing."""
