"""The pinned CDK command line on this repository: ``python -m infra.toolkit diff -c env=dev``."""

from __future__ import annotations

import sys

from infra import toolkit

CANNOT_START = 2


def main(arguments: list[str]) -> int:
    try:
        return toolkit.run(arguments)
    except toolkit.ToolkitMissing as error:
        print(f"strata: {error}", file=sys.stderr)
        return CANNOT_START


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
