"""A price list: read whole, checked whole."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from math import isfinite
from pathlib import Path
from typing import Any

LIST = Path(__file__).with_name("prices.toml")
KNOWN = {
    "read": "quoted by a public document",
    "memory": "from memory, not looked up",
    "assumed": "**an assumption**",
}
_FIELDS = {"usd", "unit", "source", "known"}


class WrongPrices(ValueError):
    """The price list cannot be used. The message says where and why."""


@dataclass(frozen=True, slots=True)
class Price:
    """`usd` buys one `unit`."""

    name: str
    usd: float
    unit: str
    source: str
    known: str


@dataclass(frozen=True, slots=True)
class Prices:
    date: str
    region: str
    by_name: Mapping[str, Price]

    def usd(self, name: str) -> float:
        """Raises `WrongPrices` for what the list does not price, such as another instance type."""
        if name not in self.by_name:
            raise WrongPrices(f"the price list has no price for {name}: add [prices.{_spelled(name)}] to it")
        return self.by_name[name].usd


def read(path: Path = LIST) -> Prices:
    """Every price of our own list must be there, more may be. Raises `WrongPrices`."""
    try:
        found = tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise WrongPrices(f"{path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise WrongPrices(f"{path} is no TOML: {error}") from None
    unknown = sorted(found.keys() - {"date", "region", "prices"})
    if unknown:
        raise WrongPrices(f"{path}: unknown key {unknown[0]}; a list has date, region and prices")
    listed = found.get("prices")
    if not isinstance(listed, dict):
        raise WrongPrices(f"{path}: there is no table [prices]")
    prices = {name: _price(path, name, each) for name, each in listed.items()}
    if path != LIST:
        _compare(path, prices, read().by_name)
    return Prices(_text(path, found, "date", "the list"), _text(path, found, "region", "the list"), prices)


def _compare(path: Path, prices: Mapping[str, Price], ours: Mapping[str, Price]) -> None:
    missing = [name for name in ours if name not in prices]
    if missing:
        raise WrongPrices(f"{path}: no price for {', '.join(missing)}; begin with a copy of our own list, {LIST.name}")
    for name in prices:
        # Other instance types may be priced; what merely looks like one of our names is a typing error.
        if name not in ours and not name.endswith(".search"):
            near = get_close_matches(name, ours, 1)
            raise WrongPrices(f"{path}: unknown price {name}" + (f"; did you mean {near[0]}?" if near else ""))


def _price(path: Path, name: str, described: object) -> Price:
    where = f"prices.{_spelled(name)}"
    if not isinstance(described, dict):
        raise WrongPrices(f"{path}: {where} must be a table with {', '.join(sorted(_FIELDS))}")
    unknown = sorted(described.keys() - _FIELDS)
    if unknown:
        raise WrongPrices(f"{path}: {where} has an unknown key {unknown[0]}; known are {', '.join(sorted(_FIELDS))}")
    usd = described.get("usd")
    if usd is None:
        raise WrongPrices(f"{path}: {where} has no usd")
    if isinstance(usd, bool) or not isinstance(usd, int | float) or not isfinite(usd) or usd < 0:
        raise WrongPrices(f"{path}: {where}.usd is {usd!r}; it must be a number of dollars, 0 or more")
    known = _text(path, described, "known", where)
    if known not in KNOWN:
        raise WrongPrices(f"{path}: {where}.known is {known!r}; it must be one of {', '.join(KNOWN)}")
    return Price(
        name, float(usd), _text(path, described, "unit", where), _text(path, described, "source", where), known
    )


def _text(path: Path, described: Mapping[str, Any], name: str, where: str) -> str:
    value = described.get(name)
    if not isinstance(value, str) or not value.strip():
        raise WrongPrices(f"{path}: {where} has no {name}")
    return value


def _spelled(name: str) -> str:
    return f'"{name}"' if "." in name else name
