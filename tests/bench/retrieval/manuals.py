"""A retrieval set of long documents that Python brings along: the topics of `help()`, about the language itself."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib import import_module
from uuid import UUID

from tests.bench.retrieval.corpus import Corpus, Line, Question

CATEGORY = "manuals"
ASKED_MS = int(datetime(2025, 6, 1, tzinfo=UTC).timestamp()) * 1000
STEP_MS = 3_600_000

# A question, and the topics that answer it. Topics that repeat one of them whole are found and added.
QUESTIONS: tuple[tuple[str, str], ...] = (
    ("How do I check something while debugging and have it disappear in optimised runs?", "assert"),
    ("What happens when I unpack a list into several variables at once?", "assignment"),
    ("Can I add to a variable in place with a short form?", "augassign"),
    ("How do I write a coroutine?", "async"),
    ("How do I wait for something that finishes later inside a coroutine?", "await"),
    ("Why is my attribute with two leading underscores renamed inside the class?", "atom-identifiers"),
    ("How can I run code whenever an attribute is read that does not exist?", "attribute-access"),
    ("How do descriptors work?", "attribute-access"),
    ("Which symbol multiplies matrices?", "binary"),
    ("What does the remainder of a division look like for negative numbers?", "binary"),
    ("How do I combine the bits of two integers with and, or, exclusive or?", "bitwise"),
    ("What do and and or give back, the operand or True?", "booleans"),
    ("How do I leave a loop early?", "break"),
    ("How do I skip the rest of one round of a loop?", "continue"),
    ("How can instances of my class be called like functions?", "callable-types"),
    ("In which order are positional and keyword arguments bound when calling?", "calls"),
    ("How do I define a type that inherits from two others?", "class"),
    ("Is it safe to chain smaller-than tests, like a < b < c?", "comparisons"),
    ("What is the difference between is and ==?", "comparisons"),
    ("How does structural pattern matching choose its branch?", "compound"),
    ("Which methods must an object have for use in a with statement?", "context-managers"),
    ("What becomes of an int that is added to a complex number?", "conversions"),
    ("When is the destructor of an object called?", "customization"),
    ("What should repr return, as opposed to str?", "customization"),
    ("Why do objects with their own equality stop being usable as dictionary keys?", "customization"),
    ("How do I set a breakpoint and step through a program line by line?", "debugger"),
    ("How do I unbind a name or remove an item from a list?", "del"),
    ("How do I build a dictionary from a loop in one expression?", "dict"),
    ("Which variables can eval and exec see?", "dynamic-features"),
    ("Which pieces of program text are executed as a unit, each with a frame of its own?", "execmodel"),
    ("How do I write a decimal fraction with an exponent?", "floating"),
    ("May I change a list while looping over it?", "for"),
    ("How do I pad a number with zeros to a given width in a template?", "formatstrings"),
    ("How do I print thousands separators?", "formatstrings"),
    ("Why does a mutable default value of a parameter keep its content between calls?", "function"),
    ("How do decorators get applied?", "function"),
    ("How can a function assign to a module level variable?", "global"),
    ("What does a single leading underscore in a name mean?", "id-classes"),
    ("Which words may not be used as variable names?", "identifiers"),
    ("How do I load another module under a different name?", "import"),
    ("Can I use underscores to group the digits of a hexadecimal constant?", "integers"),
    ("How do I write a small anonymous function?", "lambda"),
    ("Where does Python look for a variable that is not local?", "naming"),
    ("How does an inner function rebind a variable of the function around it?", "nonlocal"),
    ("How do I make my own class work with plus and with reversed operands?", "numeric-types"),
    ("Can the identity or the type of a value change after its creation?", "objects"),
    ("Which binds tighter, not or a comparison?", "operator-summary"),
    ("What stands in a body that should do nothing?", "pass"),
    ("Why is minus one to the power of two negative?", "power"),
    ("How do I throw an error and keep the original one as its cause?", "raise"),
    ("How do I give a result back to the caller?", "return"),
    ("Which methods make my own container support len and membership?", "sequence-types"),
    ("How do I move the bits of an integer to the left?", "shifting"),
    ("How do I take every second element of a sequence?", "slicings"),
    ("How do I find out the direct subclasses of a class?", "specialattrs"),
    ("How do I strip blanks from both ends of a text?", "string-methods"),
    ("How do I test whether a text begins with one of several prefixes?", "string-methods"),
    ("What does the r in front of a quoted text do to backslashes?", "strings"),
    ("Which values count as false?", "truth"),
    ("Is the clean-up block run even after a return?", "try"),
    ("Which fields does a traceback or frame object have?", "types"),
    ("How do I read a value of a mapping with a fallback for absent keys?", "typesmapping"),
    ("What happens when I look up a method through an instance?", "typesmethods"),
    ("What range do immutable number sequences with start, stop and step cover?", "typesseq"),
    ("How do I insert an item at a position or reverse a list in place?", "typesseq-mutable"),
    ("How do I invert all bits of an integer?", "unary"),
    ("How do I repeat a block as long as a condition holds?", "while"),
    ("How do I make sure that a resource is released when a block ends?", "with"),
    ("How do I write a generator?", "yield"),
)  # fmt: skip

_BLANK_LINES = re.compile(r"\n\s*\n")
_PARAGRAPH = 60
"""Characters from which a paragraph counts when topics are compared; shorter ones are examples."""
_HEADING = re.compile(r"[*=~-]{4,}$")


def corpora() -> list[Corpus]:
    return [corpus(import_module("pydoc_data.topics").topics)]


def corpus(topics: Mapping[str, str]) -> Corpus:
    """One line a topic, in the order of names. Raises LookupError when a topic that answers a question is absent."""
    absent = sorted({topic for _, topic in QUESTIONS} - topics.keys())
    if absent:
        raise LookupError(f"this Python's help has no topic {', '.join(absent)}; its questions cannot be asked")
    names = sorted(topics)
    ids = {name: str(UUID(int=number, version=4)) for number, name in enumerate(names, start=1)}
    start = ASKED_MS - len(names) * STEP_MS
    lines = [
        Line(ids[name], "assistant", None, start + number * STEP_MS, topics[name]) for number, name in enumerate(names)
    ]
    paragraphs = {name: _paragraphs(topics[name]) for name in names}
    questions = []
    for text, topic in QUESTIONS:
        holders = {name for name in names if paragraphs[topic] and paragraphs[topic] <= paragraphs[name]}
        questions.append(Question(text, frozenset(ids[name] for name in holders | {topic}), CATEGORY, ASKED_MS))
    return Corpus("manuals", lines, questions)


def _paragraphs(text: str) -> frozenset[str]:
    """Without headings, white space and footnote marks, which differ between a topic and its repetition."""
    bare = (re.sub(r"\s+|\[\d+\]", "", part) for part in _BLANK_LINES.split(text))
    return frozenset(part for part in bare if len(part) >= _PARAGRAPH and not _HEADING.search(part))
