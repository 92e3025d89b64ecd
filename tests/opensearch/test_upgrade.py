"""From one layout of the index to the next, and back: no request is lost, and the answers are those of the table."""

from __future__ import annotations

import random
import re
import threading
from collections.abc import Callable, Iterator, Sequence

import pytest

from infra.index.commands import COMMANDS
from shared.adapters.local_embedder.hashing import HashingEmbedder
from shared.adapters.opensearch.index import OpenSearchIndex
from shared.adapters.opensearch.transport import FILL
from shared.bootstrap.provisioning import RebuildFirst, StillNeeded, prepare_indexes
from shared.bootstrap.rebuilding import Beside
from shared.domain.errors import Unavailable
from shared.domain.memory import Memory, VaultRef
from tests.contract.rows import NOW, Maker
from tests.opensearch.releases import MODEL, WORDS, Installation, Release, installed

pytestmark = [pytest.mark.slow, pytest.mark.loopback]


@pytest.fixture
def site(opensearch_url: str) -> Iterator[Installation]:
    with installed(opensearch_url) as made:
        yield made


def session(make: Maker, texts: Sequence[str]) -> list[Memory]:
    return [make.raw(text, NOW + place, "one") for place, text in enumerate(texts)]


class Traffic:
    """A writer with its indexer, and a searcher, on the release that is in service."""

    def __init__(self, site: Installation, release: Release, vault: VaultRef, known: Memory) -> None:
        self._site, self.release, self._vault, self._known = site, release, vault, known
        self._stop = threading.Event()
        self.failures: list[BaseException] = []
        self.searches = self.writes = 0
        self._threads = [threading.Thread(target=self._repeat, args=(what,)) for what in (self._write, self._search)]
        self._make, self._chance = Maker(5_000), random.Random(3)
        self._living: list[Memory] = []

    def _repeat(self, what: Callable[[], None]) -> None:
        while not self._stop.is_set():
            try:
                what()
            except BaseException as error:
                self.failures.append(error)
                return

    def _write(self) -> None:
        if len(self._living) > 3 and self._chance.random() < 0.4:
            gone = self._living.pop(self._chance.randrange(len(self._living)))
            self._site.delete(self.release, self._vault, [gone])
        else:
            text = " ".join(self._chance.choices(WORDS, k=3))
            row = self._make.raw(text, NOW + self._chance.randint(-50, 50), self._chance.choice([None, "one"]))
            self._site.write(self.release, self._vault, [row])
            self._living.append(row)
        self.writes += 1

    def _search(self) -> None:
        assert self._known.id == self.release.found(self._vault, "the kingfisher", 1)[0][0]
        self.searches += 1

    def go_on(self) -> None:
        """Return when both have done something more."""
        searches, writes = self.searches, self.writes
        while not self.failures and (self.searches < searches + 3 or self.writes < writes + 5):
            self._stop.wait(0.01)

    def __enter__(self) -> Traffic:
        for thread in self._threads:
            thread.start()
        self.go_on()
        return self

    def __exit__(self, *ignored: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()


def test_an_upgrade_under_traffic_refuses_nothing_and_ends_with_the_answers_of_the_table(
    site: Installation, capsys: pytest.CaptureFixture[str]
) -> None:
    make = Maker()
    old, new = site.release(1), site.release(2)
    assert prepare_indexes(old.backend) == [f"{old.alias}-1"]
    vault = site.vault(old)
    known = make.raw("the kingfisher came back")
    site.write(old, vault, [known, *session(make, WORDS)])
    with Traffic(site, old, vault, known) as traffic:
        with pytest.raises(RebuildFirst, match=FILL):
            prepare_indexes(new.backend)
        traffic.go_on()
        assert new.command("rebuild") == 0
        said = capsys.readouterr().out
        assert f"in use now: {new.alias}-1" in said
        assert f"left for releases of another layout: {old.alias}-1" in said
        traffic.go_on()
        # The deployment: first what it needs, then the functions.
        assert prepare_indexes(new.backend) == [f"{new.alias}-1"]
        traffic.go_on()
        traffic.release = new
        traffic.go_on()
        # 1 would be said of rows that wait for their vectors at that very moment.
        assert new.command("reconcile") in (0, 1)
        traffic.go_on()
    assert traffic.failures == []
    assert new.command("reconcile") == 0
    assert "0 were missing, 0 were gone from the store, 0 were out of date" in capsys.readouterr().out
    answers = site.built_anew(vault, 2)
    assert (new.documents(vault), new.answers(vault)) == answers
    assert new.command("drop-old") == 0
    assert site.names() == {f"{new.alias}-1": {new.alias}}
    assert (new.documents(vault), new.answers(vault)) == answers


@pytest.mark.parametrize("by", ["catch-up", "reconcile", "an indexer that begins at the stream's beginning"])
def test_what_came_between_the_rebuild_and_the_deployment_is_brought_in(site: Installation, by: str) -> None:
    make = Maker()
    old, new = site.release(1), site.release(2)
    old.command("create")
    vault = site.vault(old)
    rows = session(make, WORDS)
    site.write(old, vault, rows)
    new.command("rebuild")
    site.write(old, vault, [make.raw("a heron on the weir", NOW + 3, "one")])
    site.delete(old, vault, [rows[5], rows[6]])
    assert [row for row, _ in old.found(vault, "heron", 1)] != [row for row, _ in new.found(vault, "heron", 1)]
    if by in COMMANDS:
        assert new.command(by) == 0
    else:
        assert new.deliver(site.records()) == []
    assert (new.documents(vault), new.answers(vault)) == site.built_anew(vault, 2)


def test_the_newer_index_can_be_kept_up_until_the_deployment(
    site: Installation, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    make = Maker()
    old, new = site.release(1), site.release(2)
    old.command("create")
    vault, other = site.vault(old), site.vault(old, 2)
    rows = session(make, WORDS)
    site.write(old, vault, rows)
    new.command("rebuild")
    news: list[Callable[[], None]] = [
        lambda: site.write(old, vault, [make.raw("a heron on the weir", NOW + 3, "one")]),
        lambda: site.delete(old, vault, [rows[5]]),
        lambda: site.write(old, other, [make.raw("an otter")]),
        lambda: None,
    ]

    def a_second(seconds: float) -> None:
        if not news:
            raise KeyboardInterrupt
        news.pop(0)()

    monkeypatch.setattr("infra.index.commands.time.sleep", a_second)
    capsys.readouterr()
    assert new.command("catch-up", follow=True) == 0
    monkeypatch.undo()
    brought = re.findall(r"(\d+) changes brought in, 0 failed", capsys.readouterr().out)
    assert brought == ["8", "1", "1", "1"]
    for each in (vault, other):
        assert (new.documents(each), new.answers(each)) == site.built_anew(each, 2)


def test_changes_that_cannot_be_brought_in_are_counted(
    site: Installation, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    make = Maker()
    old, new = site.release(1), site.release(2)
    old.command("create")
    vault, gone = site.vault(old), site.vault(old, 2)
    site.write(old, vault, [make.raw("an otter"), make.raw("a heron")])
    site.write(old, gone, [make.raw("a fox")])
    new.command("rebuild")
    site.write(old, vault, [make.raw("an owl")])
    site.write(old, gone, [make.raw("a hare")])
    old.services.directory.next_epoch(gone.vault_id, unbind=False)
    put = OpenSearchIndex.put_words

    def picky(self: OpenSearchIndex, vault: VaultRef, memories: Sequence[Memory]) -> None:
        if any(memory.text == "an owl" for memory in memories):
            raise ValueError("somebody's words")
        put(self, vault, memories)

    monkeypatch.setattr(OpenSearchIndex, "put_words", picky)
    capsys.readouterr()
    assert new.command("catch-up") == 1
    assert " 1 failed\n" in capsys.readouterr().out
    monkeypatch.undo()
    assert new.command("catch-up") == 0
    assert (new.documents(vault), new.answers(vault)) == site.built_anew(vault, 2)


@pytest.mark.parametrize("by", ["catch-up", "reconcile"])
def test_the_way_back_is_the_old_release_and_its_repair(site: Installation, by: str) -> None:
    make = Maker()
    old, new = site.release(1), site.release(2)
    old.command("create")
    vault = site.vault(old)
    rows = session(make, WORDS)
    site.write(old, vault, rows)
    new.command("rebuild")
    site.write(new, vault, [make.raw("a heron on the weir", NOW + 3, "one")])
    site.delete(new, vault, [rows[5]])
    assert prepare_indexes(old.backend) == [f"{old.alias}-1"]
    # Searches go on in the meantime, on what the old index has.
    assert old.found(vault, "lantern", 1)[0][0] == rows[3].id
    assert old.command(by) == 0
    assert (old.documents(vault), old.answers(vault)) == site.built_anew(vault, 1)
    # Up again: the newer index is brought up to date, and nothing is built twice.
    site.write(old, vault, [make.raw("an otter in the harbour")])
    assert prepare_indexes(new.backend) == [f"{new.alias}-1"]
    assert new.command(by) == 0
    assert (new.documents(vault), new.answers(vault)) == site.built_anew(vault, 2)


def test_a_removed_row_leaves_the_indexes_of_all_layouts(site: Installation) -> None:
    make = Maker()
    old, new = site.release(1), site.release(2)
    old.command("create")
    vault = site.vault(old)
    rows = session(make, [*WORDS[:7], "saffron, said the cook. " * 60])
    site.write(old, vault, rows)
    new.command("rebuild")
    everywhere = (f"{old.alias}-1", f"{new.alias}-1")
    assert [new.holding(vault, "saffron", index) for index in everywhere] == [{rows[1].id, rows[7].id}] * 2
    # Whichever release is in service: during the gap, and after the deployment.
    site.delete(old, vault, [rows[1]])
    assert [new.holding(vault, "saffron", index) for index in everywhere] == [{rows[7].id}] * 2
    site.delete(new, vault, [rows[7]])
    assert [new.holding(vault, "saffron", index) for index in everywhere] == [set(), set()]
    # The others are as they were, in the index that nobody writes any more.
    assert {name.split("#")[2] for name in new.documents(vault, everywhere[0])} == {
        row.id for row in rows if row not in (rows[1], rows[7])
    }


def test_a_deleted_vault_leaves_the_indexes_of_all_layouts(site: Installation) -> None:
    make = Maker()
    old, new = site.release(1), site.release(2)
    old.command("create")
    vault, other = site.vault(old), site.vault(old, 2)
    for each in (vault, other):
        site.write(old, each, session(make, WORDS))
    new.command("rebuild")
    everywhere = (f"{old.alias}-1", f"{new.alias}-1")
    new.services.index.purge(vault.vault_id, vault.epoch + 1)
    assert [len(new.documents(each, index)) for each in (vault, other) for index in everywhere] == [0, 0, 8, 8]
    # Contents that nobody has are looked for in all of them as well.
    nobody = VaultRef("0b0f9c3e-4f6e-4b1c-9f6f-2a55a1a50c11", 1)
    source = {"content": f"{nobody.vault_id}#1", "vault": nobody.vault_id, "epoch": 1, "memory": "x", "number": 0}
    for index in everywhere:
        waiting = {"waiting": index == everywhere[0]}
        site.transport.request("PUT", f"/{index}/_doc/x?routing={nobody.vault_id}&refresh=true", source | waiting)
    # What the other release waits for is its own affair.
    assert (old.services.index.waiting(10), new.services.index.waiting(10)) == ((nobody,), ())
    assert new.backend.drop_strays() == 1
    assert [len(new.documents(nobody, index)) for index in everywhere] == [0, 0]


def test_an_older_index_is_not_dropped_while_it_is_needed(
    site: Installation, capsys: pytest.CaptureFixture[str]
) -> None:
    make = Maker()
    old, new = site.release(1), site.release(2)
    old.command("create")
    vault = site.vault(old)
    site.write(old, vault, session(make, WORDS))
    with pytest.raises(Unavailable, match=FILL):
        new.command("drop-old")
    new.command("rebuild")
    # The old release is still in service.
    row = make.raw("a heron on the weir")
    site.write(old, vault, [row])
    with pytest.raises(StillNeeded, match="lacks"):
        new.command("drop-old")
    assert set(site.names()) == {f"{old.alias}-1", f"{new.alias}-1"}
    # Neither is the newer one once the newer release writes.
    new.command("reconcile")
    site.write(new, vault, [make.raw("an otter")])
    with pytest.raises(StillNeeded, match="lacks"):
        old.command("drop-old", newer=True)
    # A row that is gone is not missed.
    site.delete(old, vault, [row])
    capsys.readouterr()
    assert new.command("drop-old") == 0
    assert capsys.readouterr().out == f"dropped: {old.alias}-1\n"
    with pytest.raises(RebuildFirst, match=f"only {new.alias}-1"):
        prepare_indexes(old.backend)


def test_an_upgrade_that_was_given_up_is_dropped_by_the_release_that_stays(
    site: Installation, capsys: pytest.CaptureFixture[str]
) -> None:
    make = Maker()
    old, new = site.release(1), site.release(2)
    old.command("create")
    vault = site.vault(old)
    site.write(old, vault, session(make, WORDS))
    new.command("rebuild")
    before = old.answers(vault)
    capsys.readouterr()
    assert old.command("drop-old") == 0
    assert capsys.readouterr().out == f"left: {new.alias}-1\n"
    assert old.command("drop-old", newer=True) == 0
    assert site.names() == {f"{old.alias}-1": {old.alias}}
    assert old.answers(vault) == before


def test_an_empty_index_never_answers_for_an_installation_with_rows(site: Installation) -> None:
    class Another(HashingEmbedder):
        name = "another-model"

    make = Maker()
    release = site.release(1)
    # As often as one likes, and for a model that is new to the installation too.
    assert [prepare_indexes(release.backend) for _ in range(2)] == [[f"{release.alias}-1"]] * 2
    vault = site.vault(release)
    site.write(release, vault, [make.raw("a heron on the weir")])
    both = site.release(1, Another())
    assert len(prepare_indexes(both.backend)) == 2
    # The domain was lost.
    site.transport.request("DELETE", f"/{site.indexes}-*")
    with pytest.raises(RebuildFirst, match="has vaults"):
        prepare_indexes(both.backend)
    assert site.names() == {}
    assert both.command("rebuild") == 0
    assert len(prepare_indexes(both.backend)) == 2
    assert [row for row, _ in release.found(vault, "heron")] != []


def test_two_commands_at_once_end_with_one_index(site: Installation) -> None:
    make = Maker()
    old, new = site.release(1), site.release(2)

    def at_once(*calls: Callable[[], object]) -> None:
        failures: list[BaseException] = []

        def attempt(call: Callable[[], object]) -> None:
            try:
                call()
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=attempt, args=(call,)) for call in calls]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failures == []

    at_once(*[lambda: old.command("create")] * 4)
    assert site.names() == {f"{old.alias}-1": {old.alias}}
    vault = site.vault(old)
    site.write(old, vault, session(make, WORDS * 3))
    for _ in range(3):
        at_once(*[lambda: new.command("rebuild")] * 2)
        current = {name: aliases for name, aliases in site.names().items() if name.startswith(new.alias)}
        assert list(current.values()) == [{new.alias}]
        assert (new.documents(vault), new.answers(vault)) == site.built_anew(vault, 2)
    at_once(*[lambda: new.command("drop-old")] * 2, lambda: new.command("reconcile"))
    assert list(site.names().values()) == [{new.alias}]


def test_what_an_interrupted_rebuild_left_is_finished_or_dropped(site: Installation) -> None:
    make = Maker()
    release = site.release(1)
    release.command("create")
    vault = site.vault(release)
    site.write(release, vault, session(make, WORDS))
    # Before it took over: the next run goes on with the same index.
    stopped = Beside(release.backend)
    stopped.close()
    assert site.names() == {f"{release.alias}-1": {release.alias}, f"{release.alias}-2": {f"{release.alias}-building"}}
    assert release.command("rebuild") == 0
    assert site.names() == {f"{release.alias}-2": {release.alias}}
    # After it: nobody uses what it replaced.
    stopped = Beside(release.backend)
    stopped.take_over()
    stopped.close()
    assert site.names() == {f"{release.alias}-1": {release.alias}, f"{release.alias}-2": set()}
    release.command("reconcile")
    assert release.command("drop-old") == 0
    assert site.names() == {f"{release.alias}-1": {release.alias}}
    assert (release.documents(vault), release.answers(vault)) == site.built_anew(vault, 1)


def test_models_with_names_that_go_on_like_each_other_keep_apart(site: Installation) -> None:
    class Longer(HashingEmbedder):
        name = f"{MODEL.name}-{MODEL.dimension}-v1"

    both = site.release(2, Longer())
    make = Maker()
    site.release(1, Longer()).command("create")
    vault = site.vault(both)
    site.write(site.release(1, Longer()), vault, [make.raw("a heron on the weir")])
    assert both.command("rebuild") == 0
    longer = f"{both.alias.removesuffix('-v2')}-v1-{MODEL.dimension}-v2"
    assert both.command("drop-old") == 0
    assert site.names() == {f"{both.alias}-1": {both.alias}, f"{longer}-1": {longer}}
