"""``python -m palimpsest.cli`` is ``palimpsest``."""

from palimpsest.cli import main

if __name__ == "__main__":
    main()
