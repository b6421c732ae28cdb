"""Running an MSA/pair model over alignments: contacts, distances, structures and attention out."""
