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
    ("text", "key", "suffix"),
    [
        ("mk_0", "mk_0", None),
        ("mk-9", "mk-9", None),
        ("mk_AZaz09._-", "mk_AZaz09._-", None),
        ("mk_" + "a" * 128, "mk_" + "a" * 128, None),
        ("mk_a:read", "mk_a", "read"),
        ("mk_a:", "mk_a", ""),
        ("mk_a:x\ny", "mk_a", "x\ny"),
    ],
)
def test_keys_and_suffixes_are_parted_at_the_first_colon(text: str, key: str, suffix: str | None) -> None:
    assert parse(text) == PresentedKey(key, suffix)


def test_the_scopes_of_the_contract() -> None:
    assert {
        "memories:read",
        "memories:write",
        "memories:reflect",
        "memories:delete",
        "memories:curate",
        "keys:admin",
    } == SCOPES


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
    assert mask("mk_0123456789abcdefg") == "mk_…defg"


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
