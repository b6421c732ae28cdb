"""From maps to motifs: found, merged, named, and who uses them. The folder of `bioattn export motifs`."""
