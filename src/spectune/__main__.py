"""`python -m spectune`."""

from spectune.cli.main import main

if __name__ == "__main__":
    main()
