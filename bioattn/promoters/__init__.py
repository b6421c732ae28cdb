"""From a genome, an annotation and responses to a dataset a model can train on."""
