"""Predictions from what was measured: acceptance, the cost of a step, speed, room. Pure numerics."""
