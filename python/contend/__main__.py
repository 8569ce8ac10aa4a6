"""`python -m contend` is `contend`, also where its program is not on the PATH."""

from contend.cli import main

if __name__ == "__main__":
    main()
