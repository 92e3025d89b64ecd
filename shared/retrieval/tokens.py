"""Words of a text, as the index stores them and as a query asks for them."""

from __future__ import annotations

import re
import threading
import unicodedata
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import groupby, islice

import Stemmer

MAX_TOKEN = 64
"""Longer runs are cut here: the same run in a query is cut alike, and no term grows without bound."""

MOST_ASKED = 2_000
"""Different words of a question that are looked for; a longer one is a document, and its beginning says what about."""

_POSSESSIVE = re.compile(r"['’](?<=[^\W_].)[sS](?![^\W_])")
# ASCII text without joined names, which is most text, is cut by white space once everything else has become some.
_ASCII_WORDS = bytes(ord(chr(c).lower()) if chr(c).isascii() and chr(c).isalnum() else 32 for c in range(256))
_INNER_DOT = re.compile(r"\.[A-Za-z0-9]")
_RUN = re.compile(r"[^\W_]+(?:[._][^\W_]+)*")
_PART = re.compile(r"[._]")
_LETTERS = re.compile(r"[a-z]+")
# Names in camel case, and their parts; words and numbers joined by hyphens.
_HUMP = re.compile(r"[a-z0-9][A-Z]")
_ASCII_RUN = re.compile(r"[A-Za-z0-9]+")
_HUMPS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_HYPHENED = re.compile(r"(?<![\w-])[^\W_]+(?:-[^\W_]+)+(?![\w-])")

# Scripts written without spaces between words: single characters and pairs stand for words.
_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u0f40-\u0fbc\u1000-\u109f\u1780-\u17ff\u2e80-\u2fdf\u3005-\u3007\u3040-\u312f\u3131-\u318f"
    "\u31a0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\U0001b000-\U0001b16f"
    "\U00020000-\U0003ffff]"
)

# One stemmer is not safe to share between threads without a lock.
_stemmer = Stemmer.Stemmer("english", 0)
_stemming = threading.Lock()


class _Stems(dict[str, str]):
    """Stems met so far. A mapping, because nothing else is looked up as quickly once for every word of every text."""

    LIMIT = 1 << 16

    def __missing__(self, word: str) -> str:
        with _stemming:
            found = str(_stemmer.stemWord(word[:MAX_TOKEN]))
            if len(word) <= MAX_TOKEN:
                if len(self) >= self.LIMIT:
                    self.clear()
                self[word] = found
        return found


_stems = _Stems()
stem = _stems.__getitem__
"""The Snowball English stem of a folded word, of its first `MAX_TOKEN` characters when it is longer."""


def fold(text: str) -> str:
    """Compatibility form, case-folded, without the combining accents of Latin, Greek and Cyrillic."""
    if text.isascii():
        return text.lower()
    decomposed = unicodedata.normalize("NFKD", text).casefold()
    plain = "".join(c for c in unicodedata.normalize("NFKD", decomposed) if not "\u0300" <= c <= "\u036f")
    return unicodedata.normalize("NFC", plain)


def tokens(text: str) -> list[str]:
    """Stems of the words of `text`, in order, repeats included.

    Joined names yield their parts and the whole: ``foo_bar``, ``fooBar`` and ``foo-bar`` all have foo, bar and foobar,
    ``v1.2`` has v1, 2 and itself. Wholes with hyphens and parts of camel case stand at the end. Scripts without spaces
    yield every character and every pair of neighbours; emoji are words of their own. A text without any of these
    yields its other visible characters, so that only white space and lone surrogates are unfindable. Never raises.
    """
    found = _plain(text)
    if "-" in text:
        found += [stem(run.replace("-", "")[:MAX_TOKEN]) for run in _HYPHENED.findall(fold(text))]
    if _HUMP.search(text):
        found += _humps(text)
    return found


def _plain(text: str) -> list[str]:
    if text.isascii() and "_" not in text and not _INNER_DOT.search(text):
        plain = _POSSESSIVE.sub("", text) if "'" in text else text
        words = plain.encode("ascii").translate(_ASCII_WORDS).decode("ascii").split()
        return list(map(stem, words)) if words else _visible(plain) or _visible(text)
    folded = _POSSESSIVE.sub("", fold(text))
    found = list(_ascii_words(folded) if folded.isascii() else _words(folded))
    return found or _visible(folded) or _visible(text)


def words_by_stem(text: str) -> dict[str, str]:
    """The first folded word of plain letters for each stem of a text."""
    found: dict[str, str] = {}
    for word in _LETTERS.findall(fold(text)):
        found.setdefault(stem(word[:MAX_TOKEN]), word)
    return found


def stems_of(words: Iterable[str]) -> set[str]:
    """Stems of words that nobody may have written, and which are therefore not remembered."""
    with _stemming:
        return set(_stemmer.stemWords(list(words)))


def asked_stems(text: str) -> tuple[str, ...]:
    """The distinct stems of a question in order, `MOST_ASKED` of them at most."""
    return tuple(islice(dict.fromkeys(tokens(text)), MOST_ASKED))


def _humps(text: str) -> list[str]:
    """The parts of names in camel case, those of one letter left out."""
    names = (run for run in _ASCII_RUN.findall(text) if len(run) <= MAX_TOKEN and _HUMP.search(run))
    return [stem(part.lower()) for name in names for part in _HUMPS.findall(name) if len(part) > 1]


def _visible(text: str) -> list[str]:
    return [c for c in text if not c.isspace() and unicodedata.category(c) not in ("Cs", "Cc")]


def _ascii_words(text: str) -> Iterator[str]:
    for run in _RUN.findall(text):
        if "." in run or "_" in run:
            yield from _joined(run)
        else:
            yield stem(run[:MAX_TOKEN])


def _joined(run: str) -> Iterator[str]:
    for part in _PART.split(run):
        if part:
            yield stem(part[:MAX_TOKEN])
    if "." in run:
        yield run[:MAX_TOKEN]
    elif "_" in run:
        yield stem(run.replace("_", "")[:MAX_TOKEN])


def _words(text: str) -> Iterator[str]:
    for kind, group in groupby(text, key=_kind):
        run = "".join(group)
        if kind == "word":
            if run.isascii():
                yield from _ascii_words(run)
            # Vowel signs and the like belong to their word; a run without a letter or digit is none.
            elif any(c.isalnum() for c in run):
                yield from _joined(run.strip("._"))
        elif kind == "unspaced":
            yield from run
            yield from (run[i : i + 2] for i in range(len(run) - 1))
        elif kind == "emoji":
            yield from run


@lru_cache(maxsize=1 << 14)
def _kind(character: str) -> str:
    if character in "._":
        return "word"
    if _UNSPACED.match(character):
        return "unspaced"
    category = unicodedata.category(character)
    if category[0] in "LN" or (category in ("Mc", "Mn") and not "\ufe00" <= character <= "\ufe0f"):
        return "word"
    return "emoji" if category == "So" else "gap"
