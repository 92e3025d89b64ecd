"""The command line and the keys: what is wrong in them is named, with what to do."""

from __future__ import annotations

import argparse
import math
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from infra.consolidate.model import Command, Endpoint, Model
from infra.consolidate.run import Plan
from shared.domain.selection import MAX_TOKENS, MIN_TOKENS
from shared.settings import MODEL_KEY, VAULT_KEY, SettingsError, client_key, state_folder

DEFAULT_URL = "http://127.0.0.1:8787"
MOST_BATCHES = 100_000
LONGEST_TIMEOUT_S = 86_400
LONGEST_COOLDOWN_MIN = 100_000


class WrongUsage(Exception):
    """The message names the option and says what to do."""


@dataclass(frozen=True, slots=True)
class Options:
    """`model` is None for a dry run, which needs none."""

    url: str
    key: str = field(repr=False)
    model: Model | None
    plan: Plan
    cooldown_s: float
    dry_run: bool
    log: Path | None
    state: Path


def parse(arguments: Sequence[str], description: str) -> Options:
    """Raises `WrongUsage`; ends the process with 2 for what argparse itself refuses."""
    asked = _parser(description).parse_args(arguments)
    try:
        key = client_key(VAULT_KEY, asked.key_file)
        model_key = client_key(MODEL_KEY, asked.model_key_file)
    except SettingsError as error:
        raise WrongUsage(str(error)) from None
    if key is None:
        raise WrongUsage(f"there is no key: put the vault's memory key into {VAULT_KEY}, or give --key-file FILE")
    tiers = (1, 2) if asked.tier is None else (asked.tier,)
    return Options(
        url=asked.url.removesuffix("/v1"),
        key=key,
        model=_model(asked, model_key),
        plan=Plan(tiers, asked.all, asked.batches, asked.max_tokens, asked.timeout),
        cooldown_s=0.0 if asked.force else asked.cooldown * 60,
        dry_run=asked.dry_run,
        log=asked.log,
        state=asked.state,
    )


def _model(asked: argparse.Namespace, key: str | None) -> Model | None:
    if asked.command is not None:
        if asked.model_url is not None or asked.model is not None or asked.model_key_file is not None:
            raise WrongUsage(
                "--command takes the place of --model-url, --model and --model-key-file; give one or other"
            )
        return Command(tuple(asked.command))
    if asked.model_url is not None and asked.model is not None:
        return Endpoint(asked.model_url, asked.model, key)
    if asked.model_url is not None:
        raise WrongUsage("--model is missing: the name of the model at --model-url")
    if asked.model is not None:
        raise WrongUsage("--model-url is missing: the endpoint's address, such as http://127.0.0.1:11434/v1")
    if not asked.dry_run:
        raise WrongUsage("there is no model: give --model-url URL with --model NAME, or --command '…'")
    return None


def _parser(description: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m infra.consolidate",
        description=description,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    vault = parser.add_argument_group("the vault")
    vault.add_argument("--url", type=_address, default=DEFAULT_URL, help=f"its address; {DEFAULT_URL} by default")
    vault.add_argument("--key-file", type=Path, metavar="FILE", help=f"holds the memory key, instead of {VAULT_KEY}")
    model = parser.add_argument_group("the model")
    model.add_argument("--model-url", type=_address, metavar="URL", help="an OpenAI-compatible base, such as …/v1")
    model.add_argument("--model", type=_name, metavar="NAME", help="the model's name there")
    model.add_argument("--model-key-file", type=Path, metavar="FILE", help=f"holds its key, instead of {MODEL_KEY}")
    model.add_argument("--command", type=_words, metavar="'…'", help="a program: prompt on stdin, answer on stdout")
    model.add_argument(
        "--timeout",
        type=_number(0.1, LONGEST_TIMEOUT_S, "seconds"),
        default=600.0,
        metavar="SECONDS",
        help="for one answer; 600 by default",
    )
    work = parser.add_argument_group("what to do")
    work.add_argument("--tier", type=int, choices=(1, 2), help="only raw memories (1) or only reflections (2)")
    work.add_argument("--all", action="store_true", help="all that waits, not only what the vault suggests")
    work.add_argument(
        "--batches", type=_whole(1, MOST_BATCHES), default=3, metavar="N", help="at most so many; 3 by default"
    )
    work.add_argument(
        "--max-tokens",
        type=_whole(MIN_TOKENS, MAX_TOKENS),
        metavar="N",
        help="of memories in a batch; by default the vault decides",
    )
    work.add_argument("--dry-run", action="store_true", help="show what waits; lease nothing, ask no model")
    around = parser.add_argument_group("around it")
    around.add_argument(
        "--cooldown",
        type=_number(0, LONGEST_COOLDOWN_MIN, "minutes"),
        default=30.0,
        metavar="MINUTES",
        help="no new run so soon after one that was completed; 30 by default, 0 for none",
    )
    around.add_argument("--force", action="store_true", help="do not wait for the cooldown")
    around.add_argument("--log", type=Path, metavar="FILE", help="append results and failures to it")
    around.add_argument(
        "--state", type=Path, metavar="FOLDER", default=state_folder(), help=f"of the lock; {state_folder()} by default"
    )
    return parser


def _address(value: str) -> str:
    try:
        parts = urlsplit(value)
        # Reading the port checks it, and a name is sent in this encoding.
        _ = parts.port, (parts.hostname or "").encode("idna")
    except ValueError:
        parts = urlsplit("")
    plain = value.isascii() and value.isprintable() and " " not in value
    if not plain or parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise argparse.ArgumentTypeError("write an address such as https://host or http://127.0.0.1:8787")
    if parts.username is not None or parts.password is not None:
        raise argparse.ArgumentTypeError("a key does not belong into an address; use the environment or a key file")
    return value.rstrip("/")


def _name(value: str) -> str:
    if not value.strip():
        raise argparse.ArgumentTypeError("write the name of a model")
    return value


def _words(value: str) -> list[str]:
    try:
        words = shlex.split(value)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{error}; write it as for a shell, in one pair of quotes") from None
    if not words:
        raise argparse.ArgumentTypeError("write a program and its arguments, in one pair of quotes")
    return words


def _whole(low: int, high: int) -> Callable[[str], int]:
    def parse(value: str) -> int:
        if not (value.isascii() and value.isdigit() and len(value) <= 10 and low <= int(value) <= high):
            raise argparse.ArgumentTypeError(f"write an integer from {low:,} to {high:,}")
        return int(value)

    return parse


def _number(low: float, high: float, unit: str) -> Callable[[str], float]:
    def parse(value: str) -> float:
        try:
            number = float(value)
        except ValueError:
            number = math.nan
        if not low <= number <= high:
            raise argparse.ArgumentTypeError(f"write {unit} from {low:g} to {high:,g}")
        return number

    return parse
