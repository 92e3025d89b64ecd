"""Keys: their form, their masks, what a suffix leaves of their scopes."""

import hashlib
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.domain.errors import Unauthorized
from shared.domain.keys import SCOPES, PresentedKey, hash_key, mask, narrow, parse

ALLOWED = string.ascii_letters + string.digits + "._-"


@given(
    st.sampled_from(["mk_", "mk-"]), st.text(ALLOWED, min_size=1, max_size=128), st.sampled_from(["", "read", "x:y"])
)
def test_well_formed_keys_are_taken_apart(prefix: str, name: str, suffix: str) -> None:
    assert parse(prefix + name) == PresentedKey(prefix + name, None)
    assert parse(f"{prefix}{name}:{suffix}") == PresentedKey(prefix + name, suffix)


@pytest.mark.parametrize(
    "text",
    ["", "mk_", "mk", "mk+a", "sk_a", "MK_a", "mk_a b", "mk_ä", "mk_a\n", "mk_" + "a" * 129, " mk_a", "mk_:read"],
)
def test_anything_else_is_no_key(text: str) -> None:
    assert parse(text) is None


def test_a_key_is_kept_as_its_sha256() -> None:
    assert hash_key("mk_user-123") == hashlib.sha256(b"mk_user-123").hexdigest()


def test_masks_show_no_more_than_the_end_of_long_keys() -> None:
    assert mask("mk_0123456789abcdef") == "mk_…cdef"
    assert mask("mk-0123456789abcde") == "mk-…"
    assert mask("mk_user") == "mk_…"


def test_suffixes_only_narrow() -> None:
    assert narrow(SCOPES, None) == SCOPES
    assert narrow(SCOPES, "read") == {"memories:read"}
    assert narrow(SCOPES, "write") == {"memories:write"}
    assert narrow(SCOPES, "off") == frozenset()
    assert narrow(["memories:delete"], "read") == frozenset()


@pytest.mark.parametrize("suffix", ["", "Read", "admin", "read ", "read:write"])
def test_an_unknown_suffix_opens_nothing(suffix: str) -> None:
    with pytest.raises(Unauthorized):
        narrow(SCOPES, suffix)
