"""Words that say how a sentence is built, not what it is about: sharing only these is no match."""

from __future__ import annotations

from shared.retrieval.tokens import tokens

_ENGLISH = """
a about above after again against all am an and any are as at be because been before being below between both but by
can could did do does doing down during each few for from further had has have having he her here hers herself him
himself his how i if in into is it its itself just let me might more most must my myself no nor not now of off on once
only or other our ours ourselves out over own s same shall she should so some such t than that the their theirs them
themselves then there these they this those through to too under until up upon very was we were what when where
whether which while who whom whose why will with would yes yet you your yours yourself yourselves d ll m re ve don
doesn didn isn aren wasn weren hasn haven hadn won wouldn couldn shouldn ain also please tell
"""

FUNCTION_WORDS = frozenset(tokens(_ENGLISH))

_OF_TIME = """
january february march april may june july august september october november december jan feb mar apr jun jul aug sep
sept oct nov dec monday tuesday wednesday thursday friday saturday sunday spring summer autumn fall winter year years
month months week weeks weekend day days yesterday today tonight morning afternoon evening night ago last past previous
late early since until till between around throughout one two three four five six seven eight nine ten eleven twelve
couple th st nd rd
"""
_TIME = frozenset(tokens(_OF_TIME))
_BESIDE_DATES = frozenset(tokens("in on at of the a an and or from to since between during"))
_FOR_ANYTHING = frozenset(tokens("what anything everything something happen happened news"))
_GENERAL = frozenset(tokens("do did done go went say said talk talked speak spoke discuss discussed mention mentioned"))


def asks_only_when(stems: frozenset[str]) -> bool:
    """Whether a question that names a period asks for its rows alone: "what did we do on Friday?", just "May 2024"."""
    beyond = frozenset(stem for stem in stems - _TIME if not stem.isdecimal())
    if not beyond & _FOR_ANYTHING:
        return beyond <= _BESIDE_DATES
    return beyond <= FUNCTION_WORDS | _FOR_ANYTHING | _GENERAL


def content_words(stems: frozenset[str]) -> frozenset[str]:
    """The stems that carry meaning; all of them where none does, so that such a query still finds its words."""
    return stems - FUNCTION_WORDS or stems
