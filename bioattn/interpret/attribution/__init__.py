"""What each base of a promoter adds to a prediction: in-silico mutagenesis and gradients.

Begin with `mutagenesis.Mutagenesis`; what all methods return is `values.Attribution`.
"""
