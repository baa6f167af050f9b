"""Simulated engines: real processes with an engine's flags, log lines and endpoints, and a known truth behind them.

For tests, demos and search experiments. Nothing that comes from here says anything about real hardware, and every
server says so: its version ends in "+sim", and its read-back carries a "simulated" key.
"""
