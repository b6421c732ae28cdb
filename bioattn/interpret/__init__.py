"""From attention to what each field looks at: one module for each question, `motifs` a folder of them.

- `promoter_maps`: one signal over promoters, treatments and positions, from files or memory; `position_maps`: from
  bins to bases; `alignment_maps`: maps from the heads of a file over alignments
- `tracks`: maps along chromosomes
- `motifs`: motifs found in maps; known ones, asked for in maps
- `contacts`: contacts of residues that attention speaks of; `alignment_maps` paints attention on a structure
- `attribution`: what each base adds to a prediction
- `heads`: how much each attention head matters
- `localisation`: maps against planted truth
- `design_check`: whether designed promoters do what was asked for
"""
