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


def content_words(stems: frozenset[str]) -> frozenset[str]:
    """The stems that carry meaning; all of them where none does, so that such a query still finds its words."""
    return stems - FUNCTION_WORDS or stems
