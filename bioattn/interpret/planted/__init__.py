"""Maps and predictions against planted truth: the scores of `bioattn simulate score`."""
