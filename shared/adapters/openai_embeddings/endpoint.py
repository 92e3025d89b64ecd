"""Where an OpenAI-compatible endpoint is and what its model gives. Costs nothing to import."""

from __future__ import annotations

import re
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Endpoint:
    """`url` is the base, such as ``https://host/v1``. `noise` is the model's, see the embedder port.

    With `shorten` the endpoint is asked for vectors of `dimension` numbers; without, the model's own number must be it.
    """

    url: str
    model: str
    dimension: int
    noise: float
    key: str | None = field(default=None, repr=False)
    shorten: bool = False

    @property
    def name(self) -> str:
        """The public name: the model's in lower case letters, digits, dots and hyphens, then the dimension."""
        plain = re.sub(r"[^a-z0-9.]+", "-", self.model.lower()).strip("-.") or "model"
        ending = f"-{self.dimension}"
        return plain if plain.endswith(ending) else plain + ending
