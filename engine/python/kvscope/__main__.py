"""python -m kvscope: the program. It is also the console script of the program's wheel."""

import sys

from .program import main

if __name__ == "__main__":
    sys.exit(main())
