"""Results in HDF5: the attention file's schema, writer, parts, reader and validator; what any file is."""
