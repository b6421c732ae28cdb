"""HDF5 results: schema, writer, reader, validator."""
