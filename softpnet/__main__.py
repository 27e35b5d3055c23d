"""`python -m softpnet COMMAND ...`, for where no script of that name is on the path."""

from softpnet.cli.main import main

if __name__ == "__main__":
    main()
