"""spectune finds the speculative-decoding settings that make a served LLM fastest, on the real server, with proof."""

__version__ = "0.1.0"
