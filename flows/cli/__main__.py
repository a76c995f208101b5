"""`python -m flows.cli`: the command `okl`."""

from flows.cli import main

if __name__ == "__main__":
    main()
