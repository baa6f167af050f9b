"""Rules that hold for several engines: each is here once, and what is one engine's own stays with that engine.

Only engines import this package, and it imports no engine.
"""
