"""From attention to what each field looks at: one folder for each question.

- `maps`: one map from the sites and heads of a file, over bases or over residues
- `tracks`: maps along chromosomes
- `motifs`: motifs found in maps; `known_motifs`: known ones, asked for in maps
- `contacts`: contacts of residues that attention speaks of; `structure_painting`: attention on a structure
- `attribution`: what each base adds to a prediction
- `heads`: how much each attention head matters
- `planted`: maps against planted truth
"""
