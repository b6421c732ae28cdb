"""Results in HDF5: schema, writer, parts, reader and validator of attention and attribution; what any file is."""
