"""Memory networks: questions answered from tables of facts, in hops (Sukhbaatar et al. 2015)."""
