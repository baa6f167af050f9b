"""Prints the page on all checks."""

from __future__ import annotations

import sys

from spectune.verify.catalogue import as_markdown

if __name__ == "__main__":
    sys.stdout.write(as_markdown())
