"""Models of molecules: neural graph fingerprints and graph attention."""
