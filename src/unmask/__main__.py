import sys

if not sys.flags.safe_path:
    del sys.path[0]  # the working directory, whose modules are imported only if the command line names them

from unmask.cli.main import main

sys.exit(main())
