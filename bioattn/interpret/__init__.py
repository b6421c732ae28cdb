"""From attention to what each field looks at: one module for each question, `motifs` a folder of them.

- `position_maps`, `promoter_maps`, `alignment_maps`: one map from the sites and heads of a file
- `tracks`: maps along chromosomes
- `motifs`: motifs found in maps; known ones, asked for in maps
- `contacts`: contacts of residues that attention speaks of; `structure_painting`: attention on a structure
- `attribution`: what each base adds to a prediction
- `heads`: how much each attention head matters
- `localisation`, `planted_scores`: maps against planted truth
- `design_check`: whether designed promoters do what was asked for
"""
