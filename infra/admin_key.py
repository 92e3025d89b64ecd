"""A first key with every scope: ``python -m infra.admin_key [--env NAME] [name]``.

With ``--env`` it is for the deployed environment of that name in ``cdk.json``, with the AWS credentials at hand.
Without, the back end is chosen by ``STRATA_…`` variables, as for the server; the embedded one must not be running.
"""

from __future__ import annotations

import argparse
import sys
from contextlib import closing

from botocore.exceptions import BotoCoreError, ClientError

from infra.env import WrongEnvironment
from infra.outputs import NotDeployed, settings_of
from shared import bootstrap
from shared.domain.errors import StrataError
from shared.settings import SettingsError
from shared.usecases.keys import first_admin_key

CANNOT_START = 2


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m infra.admin_key", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--env", help="an environment of cdk.json that is deployed")
    parser.add_argument("name", nargs="*", help="what the key is called in lists of keys")
    asked = parser.parse_args(arguments)
    try:
        with closing(bootstrap.chosen(settings_of(asked.env))) as backend:
            print(first_admin_key(backend.services, " ".join(asked.name) or "admin"))
    except (SettingsError, WrongEnvironment, NotDeployed) as error:
        print(f"no key was made: {error}", file=sys.stderr)
        return CANNOT_START
    except StrataError as error:
        print(f"no key was made: {error.message} {error.hint or ''}".rstrip(), file=sys.stderr)
        return CANNOT_START
    except (BotoCoreError, ClientError) as error:
        print(f"no key was made: AWS could not be asked: {error}", file=sys.stderr)
        return CANNOT_START
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
