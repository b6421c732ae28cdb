"""What each base of a promoter adds to a prediction: in-silico mutagenesis and gradients."""
