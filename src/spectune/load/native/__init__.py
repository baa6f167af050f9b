"""The compiled part of the load client, where it could be compiled; see docs/load-generator.md."""
