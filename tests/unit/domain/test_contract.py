"""The consolidation contract is pinned: other words need another version."""

import hashlib

import pytest

from shared.domain import contract

WORDING = {
    (2, 2): "75969ad4b895126ee11d94d3233e8906f44341343e9b6b5f0df6ea0cb70498d4",
    (2, 3): "372daeeb2c9f1207563873ee64a58c291d6e72f343a114bc0beee0d559f781f9",
}
DEFINITIONS = {
    (2, 2): "7ab954a9be84a6c95a1903b96ba966fb7389b535e4fc0f3ef9570328547d8e2e",
    (2, 3): "b93261f108cdedaddea543ab694a0ecde386fa7fe2d0384e544d3af07275ad71",
}


@pytest.mark.parametrize("tier", [2, 3])
def test_the_wording_belongs_to_the_version(tier: int) -> None:
    text = contract.instructions(tier)
    assert hashlib.sha256(text.encode()).hexdigest() == WORDING[contract.VERSION, tier]
    definition = str(contract.tier_definitions(tier - 1)["instruction"])
    assert hashlib.sha256(definition.encode()).hexdigest() == DEFINITIONS[contract.VERSION, tier]
    assert definition.startswith(f"Tier {tier} holds ")


@pytest.mark.parametrize("source", [1, 2])
def test_the_contract_has_every_field(source: int) -> None:
    body = contract.reflection_contract(source)
    assert body["version"] == 2
    assert body["target_tier"] == source + 1
    assert body["instructions"] == contract.instructions(source + 1)
    assert body["entry_schema"] == {
        "text": "string of 1 to 8000 characters, standalone prose without ids or scores",
        "importance": "integer 1 to 10",
    }
    assert (body["min_entries"], body["max_entries"], body["recommended_entries"]) == (1, 100, "5-10")
    assert contract.tier_definitions(source)["target_tier"] == source + 1


def test_the_two_tiers_are_told_apart() -> None:
    assert contract.instructions(2) != contract.instructions(3)
    assert contract.tier_definitions(1)["instruction"] != contract.tier_definitions(2)["instruction"]
