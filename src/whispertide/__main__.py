"""`python -m whispertide`: the command line."""

from whispertide.cli.main import main

if __name__ == "__main__":
    main()
