"""A first key with every scope: ``python -m infra.local.admin_key [name]``.

The back end is chosen by ``STRATA_…`` variables, as for the server; the embedded one must not be running.
"""

from __future__ import annotations

import sys
from contextlib import closing

from shared import bootstrap
from shared.domain.errors import StrataError
from shared.settings import SettingsError, load
from shared.usecases.keys import first_admin_key

CANNOT_START = 2


def main(arguments: list[str]) -> int:
    name = " ".join(arguments) or "admin"
    if name.startswith("-"):
        print(__doc__)
        return 0
    try:
        with closing(bootstrap.chosen(load())) as backend:
            print(first_admin_key(backend.services, name))
    except SettingsError as error:
        print(f"no key was made: {error}", file=sys.stderr)
        return CANNOT_START
    except StrataError as error:
        print(f"no key was made: {error.message} {error.hint or ''}".rstrip(), file=sys.stderr)
        return CANNOT_START
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
