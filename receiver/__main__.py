"""`python -m receiver` is the `receiver` command."""

from receiver.cli.main import main

if __name__ == "__main__":
    main()
