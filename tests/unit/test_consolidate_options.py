"""The command line of `consolidate`: every wrong option is named."""

from __future__ import annotations

import re
import signal
from pathlib import Path

import pytest

from infra.consolidate import __main__ as command
from infra.consolidate.model import Command, Endpoint
from infra.consolidate.options import Options, WrongUsage, parse
from infra.consolidate.run import Plan

MODEL = ["--model-url", "http://127.0.0.1:11434/v1/", "--model", "small"]


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STRATA_KEY", "mk_demo")
    monkeypatch.setenv("STRATA_MODEL_KEY", "sesame")
    monkeypatch.setenv("XDG_STATE_HOME", "/var/state")


def refusal(*arguments: str) -> str:
    with pytest.raises(WrongUsage) as wrong:
        parse(arguments, "")
    return str(wrong.value)


def test_defaults() -> None:
    assert parse(MODEL, "") == Options(
        url="http://127.0.0.1:8787",
        key="mk_demo",
        model=Endpoint("http://127.0.0.1:11434/v1", "small", "sesame"),
        plan=Plan(tiers=(1, 2), everything=False, batches=3, max_tokens=None, timeout_s=600),
        cooldown_s=1800,
        dry_run=False,
        log=None,
        state=Path("/var/state/strata"),
    )


def test_everything_can_be_chosen(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("mk_file\n")
    (tmp_path / "model-key").write_text(" token ")
    files = ["--key-file", str(tmp_path / "key"), "--model-key-file", str(tmp_path / "model-key")]
    rest = "--url https://m.example/v1/ --tier 2 --all --batches 9 --max-tokens 1000 --timeout 1.5 --cooldown 0.5"

    chosen = parse([*MODEL, *files, *rest.split(), "--log", "x.log", "--state", "here"], "")

    assert (chosen.url, chosen.key, chosen.cooldown_s) == ("https://m.example", "mk_file", 30)
    assert chosen.model == Endpoint("http://127.0.0.1:11434/v1", "small", "token")
    assert chosen.plan == Plan((2,), True, 9, 1000, 1.5)
    assert (chosen.log, chosen.state) == (Path("x.log"), Path("here"))


def test_force_and_dry_run() -> None:
    assert parse([*MODEL, "--force"], "").cooldown_s == 0
    assert parse(["--dry-run"], "").model is None


def test_a_command_is_read_as_a_shell_reads_it() -> None:
    chosen = parse(["--command", "ollama run 'my model'"], "")

    assert isinstance(chosen.model, Command)
    assert chosen.model.words == ("ollama", "run", "my model")


def test_keys_are_never_shown() -> None:
    assert "mk_demo" not in repr(parse(MODEL, ""))
    assert "sesame" not in repr(parse(MODEL, ""))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "--model-url URL with --model NAME, or --command"),
        (["--model", "small"], "--model-url is missing"),
        (["--model-url", "http://host/v1"], "--model is missing"),
        ([*MODEL, "--command", "x"], "--command takes the place of"),
        (["--command", "x", "--model-key-file", "none"], "none cannot be read: No such file or directory"),
        ([*MODEL, "--key-file", "none"], "none cannot be read"),
        ([*MODEL, "--key-file", "."], ". cannot be read: Is a directory"),
    ],
)
def test_what_is_missing_or_too_much_is_named(arguments: list[str], said: str) -> None:
    assert said in refusal(*arguments)


def test_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("STRATA_KEY")

    assert "STRATA_KEY, or give --key-file" in refusal(*MODEL)


@pytest.mark.parametrize("content", ["", "sesame", "mk_", "mk_a b", "mk_sésame", "mk_sesame\nmk_two"])
def test_a_key_that_is_none_is_refused_without_showing_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str
) -> None:
    monkeypatch.setenv("STRATA_KEY", content)
    (tmp_path / "key").write_text(content, "utf-8")

    by_variable, by_file = refusal(*MODEL), refusal(*MODEL, "--key-file", str(tmp_path / "key"))

    assert "STRATA_KEY holds no key" in by_variable
    assert f"{tmp_path / 'key'} holds no key" in by_file
    assert "sesame" not in by_variable + by_file


def test_a_token_that_is_none_is_refused_without_showing_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STRATA_MODEL_KEY", "open sesame")

    assert "STRATA_MODEL_KEY holds no key" in refusal(*MODEL)
    assert "sesame" not in refusal(*MODEL)


def test_a_key_file_that_is_no_text(tmp_path: Path) -> None:
    (tmp_path / "key").write_bytes(b"\xff\xfe")

    assert "cannot be read: it is no text" in refusal(*MODEL, "--key-file", str(tmp_path / "key"))


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        *(("--url", bad, "http://127.0.0.1:8787") for bad in ("", "host", "ftp://host", "http://", "http://h:x")),
        *(
            ("--url", bad, "http://127.0.0.1:8787")
            for bad in ("http://h/?a=1", "http://h/#a", "http://a b", "http://é")
        ),
        ("--url", "http://mk_demo@host", "a key does not belong into an address"),
        ("--url", "http://" + "x" * 70 + ".example", "write an address"),
        ("--model-url", "localhost:11434/v1", "https://host"),
        ("--model", " ", "name of a model"),
        ("--command", "", "a program and its arguments"),
        ("--command", "say 'x", "No closing quotation"),
        *(("--batches", bad, "from 1 to 100,000") for bad in ("0", "-1", "1.5", "x", "100001", "٣")),
        *(("--max-tokens", bad, "from 1,000 to 200,000") for bad in ("999", "200001", "")),
        *(("--timeout", bad, "seconds from 0.1 to") for bad in ("0", "nan", "inf", "x")),
        *(("--cooldown", bad, "minutes from 0 to") for bad in ("-1", "nan", "1h")),
        ("--tier", "3", "choose from"),
    ],
)
def test_a_bad_value_names_its_option(capsys: pytest.CaptureFixture[str], option: str, value: str, said: str) -> None:
    with pytest.raises(SystemExit) as ended:
        parse([*MODEL, f"{option}={value}"], "")

    assert ended.value.code == 2
    told = capsys.readouterr().err
    assert f"argument {option}:" in told
    assert said in told


def test_the_page_names_options_and_endings_that_exist(capsys: pytest.CaptureFixture[str]) -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "consolidate.md").read_text("utf-8")
    with pytest.raises(SystemExit):
        parse(["--help"], command.__doc__ or "")
    told = capsys.readouterr().out

    assert set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", page)) <= set(re.findall(r"--[a-z][a-z-]+", told))
    endings = {int(code) for cell in re.findall(r"^\| ([\d, ]+) \|", page, re.M) for code in cell.split(", ")}
    assert endings == {
        command.DONE,
        command.BATCH_FAILED,
        command.WRONG_USAGE,
        command.NO_VAULT,
        command.NOT_NOW,
        command.STOPPED + signal.SIGINT,
        command.STOPPED + signal.SIGTERM,
    }
    assert all(re.search(rf"\b{code}\b", told) for code in endings)


def test_options_are_written_out() -> None:
    with pytest.raises(SystemExit):
        parse([*MODEL, "--forc"], "")
