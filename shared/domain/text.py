"""Rules about text: what is accepted, how its size is estimated. Text itself is never changed."""

from __future__ import annotations

from shared.domain.errors import InvalidRequest, TooLarge

MAX_CHARACTERS = 100_000
MAX_BYTES = 300_000
BYTES_PER_TOKEN = 4
# The characters with the Unicode property White_Space. `str.isspace` counts four separators of old tapes among them.
WHITE_SPACE = (
    "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f"
    "\u205f\u3000"
)


def est_tokens(text: str) -> int:
    """``ceil(len(utf8 bytes) / 4)``: 0 for the empty text, at least 1 for any other."""
    return -(-len(text.encode("utf-8")) // BYTES_PER_TOKEN)


def is_blank(text: str) -> bool:
    """Whether the text is empty or holds only what Unicode calls white space."""
    return not text.strip(WHITE_SPACE)


def storable_problem(text: str) -> str | None:
    """Why the text cannot be stored at all, or None. NUL and lone surrogates have no faithful UTF-8 form."""
    if "\x00" in text:
        return "contains a NUL character (U+0000)"
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        return f"contains a lone surrogate at character {error.start}"
    return None


def check_text(field: str, text: str) -> None:
    """Refuse text that cannot be stored verbatim.

    Raises `InvalidRequest` for NUL and lone surrogates, `TooLarge` above the limits of one memory.
    """
    problem = storable_problem(text)
    if problem is not None:
        raise InvalidRequest.field(field, problem, "Remove or replace that character and send the request again.")
    if len(text) > MAX_CHARACTERS or len(text.encode("utf-8")) > MAX_BYTES:
        raise TooLarge(
            f"{field}: one memory holds at most {MAX_CHARACTERS:,} characters and {MAX_BYTES:,} bytes of UTF-8",
            hint="Split the text into several messages.",
        )
