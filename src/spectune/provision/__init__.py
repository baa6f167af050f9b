"""Provision: gets engine programs and models onto this machine, and says what this machine is."""
