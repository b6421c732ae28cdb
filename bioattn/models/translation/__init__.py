"""Translation models: from one sequence to another."""
