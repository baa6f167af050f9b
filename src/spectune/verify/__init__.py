"""Proof before numbers: what was asked of a deployment against what is seen of it, as three-valued findings."""
