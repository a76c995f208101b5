"""Entry point of `python -m flows.cli`, the same as the command `okl`."""

from flows.cli import main

if __name__ == "__main__":
    main()
