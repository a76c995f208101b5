"""A registered model: immutable versions, atomic aliases, and errors for missing or damaged files."""

from __future__ import annotations

import errno
import json
import os
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pytest

from okl.foundation.errors import ConfigError, ConflictError, ModelError, RegistryError
from okl.models import registry as models_registry
from okl.models import registry_log
from okl.models.file import save_model
from okl.models.reference import load, pinned
from okl.models.registry import MARK, RegisteredModel, Registry
from okl.models.registry_log import Lineage, seal
from tests.models.registered import lineage, model_numbered, number_in, publish, writer


@pytest.fixture
def model(tmp_path: Path) -> RegisteredModel:
    return Registry(tmp_path / "registry").model("churn")


def three_champions(model: RegisteredModel) -> None:
    for number in (1, 2, 3):
        publish(model, number, number - 1 or None, promote=True)


def test_a_published_version_loads_with_its_lineage(model: RegisteredModel) -> None:
    first = publish(model, 1, promote=True, why="the first one")
    second = publish(model, 2, 1, aliases=["candidate"])
    assert (str(first), str(second)) == ("churn@1", "churn@2")
    assert model.state().aliases == {"champion": 1, "candidate": 2}
    assert [number_in(model.version(which).load()) for which in (1, "2", "champion", "candidate")] == [1, 2, 1, 2]
    assert model.version(2).lineage == lineage(2, 1)
    assert [str(version) for version in model.ancestry(second)] == ["churn@2", "churn@1"]
    assert [(entry.number, entry.kind, entry.why) for entry in model.entries()] == [
        (1, "publish", "the first one"), (2, "publish", ""),
    ]  # fmt: skip
    for version in model.versions():
        version.verify()
    assert set(first.published.files) == {
        "model/model.json", "model/weights.safetensors", "report.html", "state/arrays.bin",
    }  # fmt: skip
    assert [one.name for one in Registry(model.folder.parent).models()] == ["churn"]


def test_champion_and_previous_move_together_and_two_rollbacks_go_back_twice(model: RegisteredModel) -> None:
    three_champions(model)
    assert model.state().aliases == {"champion": 3, "previous": 2}
    model.rollback(why="scores went wild")
    assert model.state().aliases == {"champion": 2, "previous": 1}
    model.rollback()
    assert model.state().aliases == {"champion": 1}
    with pytest.raises(
        RegistryError, match=r"churn has no earlier champion to roll back to\. Promote a version: okl models"
    ):
        model.rollback()
    model.promote(3)
    assert model.state().aliases == {"champion": 3, "previous": 1}
    assert [entry.kind for entry in model.entries()] == ["publish"] * 3 + ["rollback"] * 2 + ["promote"]


def test_the_only_version_cannot_be_rolled_back(model: RegisteredModel) -> None:
    publish(model, 1, promote=True)
    with pytest.raises(RegistryError, match="churn has only version 1: there is no earlier version"):
        model.rollback()
    assert model.state().aliases == {"champion": 1}


def test_promoting_the_champion_changes_nothing_and_a_promoted_candidate_loses_its_alias(
    model: RegisteredModel,
) -> None:
    publish(model, 1, promote=True)
    publish(model, 2, 1, aliases=["candidate", "nightly"])
    done = model.promote("candidate")
    assert model.promote(2) == done == model.head()
    assert model.state().aliases == {"champion": 2, "previous": 1, "nightly": 2}
    model.set_aliases({"nightly": None, "shadow": 1})
    assert model.state().aliases == {"champion": 2, "previous": 1, "shadow": 1}
    assert model.set_aliases({"shadow": 1}).number == model.head().number


def test_the_same_identity_twice_is_one_version(model: RegisteredModel) -> None:
    publish(model, 1, promote=True)
    second = publish(model, 2, 1, promote=True)
    model.rollback()
    before = model.head()

    def never(folder: Path) -> None:
        raise AssertionError(folder)

    again = model.publish(never, lineage(2, 1, metrics={"error": 0.5}), promote=True)
    assert (again.version, again.new) == (second, False)
    assert model.find(lineage(2, 1)) == second
    assert model.head() == before, "what was rolled back is not promoted by running the window again"
    assert model.find(lineage(2, None)) is None
    assert model.find(replace(lineage(2, 1), settings={"solver": "nogd"})) is None
    assert model.find(lineage(3, 1)) is None


def test_identity_depends_on_parents_shard_order_and_settings_only() -> None:
    shards = ({"sha256": "a", "name": "x"}, {"sha256": "b", "name": "y"})
    made = Lineage(parent=4, shards=shards, settings={"seed": 1, "C": 2.0})
    same = replace(made, settings={"C": 2.0, "seed": 1}, metrics={"error": 0.1}, environment={"okl": "9"})
    renamed = replace(made, shards=({"sha256": "a", "name": "z"}, shards[1]))
    assert {one.identity("p") for one in (made, same, renamed)} == {made.identity("p")}
    others = [replace(made, shards=shards[::-1]), replace(made, settings={"seed": 2, "C": 2.0})]
    assert made.identity("p") not in {made.identity("q"), made.identity(None), *(one.identity("p") for one in others)}
    with pytest.raises(RegistryError, match="holds values that JSON cannot represent"):
        Lineage(metrics={"error": float("nan")})


def test_a_failed_expectation_changes_nothing(model: RegisteredModel) -> None:
    three_champions(model)
    before = model.head()
    message = (
        r"The alias champion of churn is now churn@3, not churn@2: entry 3 of the log is a publish by .+\. "
        r"Nothing was changed\. Check okl models show churn, and retry\."
    )
    with pytest.raises(ConflictError, match=message):
        model.publish(writer(4), lineage(4, 2), promote=True)
    for change in (
        lambda: model.promote(1, expected={"champion": 2}),
        lambda: model.rollback(expected={"champion": 2}),
        lambda: model.set_aliases({"shadow": 1}, expected={"shadow": 2}),
        lambda: model.publish(writer(4), lineage(4, 3), expected={"previous": None}),
    ):
        with pytest.raises(ConflictError):
            change()
    assert model.head() == before
    assert len(list((Path(str(model.folder)) / "versions").iterdir())) == 3


def test_pruning_keeps_versions_with_an_alias_and_every_lineage(model: RegisteredModel) -> None:
    for number in range(1, 9):
        publish(model, number, number - 1 or None, promote=number in (2, 5), expected={})
    planned = model.prune(keep=2, dry_run=True)
    assert model.head().number == 8
    done = model.prune(keep=2)
    assert done == planned
    assert done.versions == (1, 3, 4, 6)
    assert done.size_bytes == sum(model.version(number).published.size_bytes for number in done.versions)
    assert [version.number for version in model.versions() if version.pruned] == [1, 3, 4, 6]
    assert [version.folder.exists() for version in model.versions()] == [
        False,
        True,
        False,
        False,
        True,
        False,
        True,
        True,
    ]
    assert [version.number for version in model.ancestry(model.version(8))] == list(range(8, 0, -1))
    with pytest.raises(RegistryError, match=r"churn@3 was pruned, so its files no longer exist"):
        model.promote(3)
    model.rollback()
    assert number_in(model.version().load()) == 2
    assert model.state().former == ()
    assert model.prune(keep=2).versions == (5,)
    head = model.head()
    assert model.prune(keep=2).versions == ()
    assert model.head() == head, "nothing to prune writes nothing"
    with pytest.raises(ConfigError, match="the newest version is not pruned"):
        model.prune(keep=0)


def test_the_second_pruning_removes_an_entry_of_a_killed_writer(model: RegisteredModel) -> None:
    publish(model, 1, promote=True)
    left = Path(str(model.folder)) / "log" / f".{model.head().number + 1:08}.json.0123abcd"
    left.write_bytes(b"{")
    model.prune(keep=5)
    model.prune(keep=5)
    assert not left.exists()
    number = model.head().number
    model.prune(keep=5)
    assert model.head().number == number, "there is nothing more to remove"


def test_the_second_pruning_removes_files_of_a_killed_writer_and_a_slow_writer_fails(model: RegisteredModel) -> None:
    publish(model, 1, promote=True)
    left = model.folder / "versions" / f"{model.head().number:08}-0123456789ab"
    models_registry.write_files(left, writer(2))
    temporary_file = Path(str(model.folder)) / "log" / ".00000001.json.0123abcd"
    temporary_file.write_text("half")

    def slow(folder: Path) -> None:
        writer(3)(folder)
        assert model.prune(keep=5).leftovers == ()
        assert left.exists()
        assert set(model.prune(keep=5).leftovers) == {left.name, folder.name}

    with pytest.raises(
        ConflictError, match=r"unpublished files were pruned: entry 3 of the log of churn is the second prun"
    ):
        model.publish(slow, lineage(3, 1))
    assert not left.exists()
    assert not temporary_file.exists()
    assert model.state().latest == 1
    publish(model, 3, 1)


def test_a_clock_that_is_set_back_changes_nothing(model: RegisteredModel, monkeypatch: pytest.MonkeyPatch) -> None:
    class Clock(datetime):
        year_now = 2031

        @classmethod
        def now(cls, tz: object = None) -> Clock:
            cls.year_now -= 1
            return cls(cls.year_now, 1, 1)

    monkeypatch.setattr(registry_log, "datetime", Clock)
    three_champions(model)
    stamps = [entry.at for entry in model.entries()]
    assert stamps == sorted(stamps, reverse=True)
    assert len(set(stamps)) == 3
    for path in Path(str(model.folder)).rglob("*"):
        os.utime(path, (10**9, 10**9))
    assert model.state().aliases == {"champion": 3, "previous": 2}
    model.rollback()
    assert number_in(Registry(model.folder.parent).model("churn").version().load()) == 2
    assert model.prune(keep=1).versions == ()
    assert model.prune(keep=1).versions == ()


def test_a_damaged_entry_or_version_raises_with_advice(model: RegisteredModel) -> None:
    three_champions(model)
    log = Path(str(model.folder)) / "log"

    def fresh() -> RegisteredModel:
        return Registry(model.folder.parent).model("churn")

    whole = (log / "00000003.json").read_bytes()
    advice = r"Restore the file from a backup of the registry\."
    content = json.loads(whole)
    published = content["published"]
    stray = seal({**content, "published": {**published, "folder": "../../elsewhere"}})
    outside = seal({**content, "published": {**published, "files": {"../../../etc/passwd": {"bytes": 1}}}})
    pruning = seal({**content, "kind": "prune", "published": None, "discarded": ["../log"]})
    later = seal({**content, "format_version": 2}).replace(b'"format_version": 1', b'"format_version": 2', 1)
    for stored, message in (
        (whole[:-40], rf"00000003\.json is damaged: not valid JSON of a registry\. {advice}"),
        (whole.replace(b'"champion": 3', b'"champion": 1'), rf"is damaged: the sha256 does not match\. {advice}"),
        (seal({"number": 3}), rf"00000003\.json is not an entry of a log .+ {advice}"),
        ((log / "00000002.json").read_bytes(), rf"is damaged: its number is 2\. {advice}"),
        (stray, r"not an entry of a log \('\.\./\.\./elsewhere' is not the folder of a version\)"),
        (outside, r"the path '\.\./\.\./\.\./etc/passwd' leads out of the version"),
        (pruning, r"'\.\./log' is not the folder of a version"),
        (seal({**content, "state": {**content["state"], "aliases": None}}), r"state\.aliases: Input should be"),
        (b"[" * 100_000, r"not valid JSON of a registry"),
        (b'{"format_version": 2}', r"has format 2 of a later okl version; this one reads up to 1\. Upgrade okl\."),
        (later, r"of a later okl"),
    ):
        (log / "00000003.json").write_bytes(stored)
        with pytest.raises(RegistryError, match=message):
            fresh().state()
    (log / "00000003.json").write_bytes(whole)
    assert number_in(fresh().version().load()) == 3

    old = (log / "00000001.json").read_bytes()
    (log / "00000001.json").write_bytes(old[:100])
    assert number_in(fresh().version().load()) == 3, "an old entry is not needed to find the champion"
    with pytest.raises(RegistryError, match=r"00000001\.json is damaged"):
        fresh().entries()
    (log / "00000001.json").unlink()
    with pytest.raises(RegistryError, match=r"00000001\.json cannot be read \(No such file or directory\)\. Restore"):
        fresh().state()
    (log / "00000001.json").write_bytes(seal({**json.loads(old), "why": "another"}))
    with pytest.raises(RegistryError, match=r"00000002\.json does not follow 00000001\.json: one of them was replaced"):
        fresh().entries()
    (log / "00000001.json").write_bytes(old)

    report, weights = (fresh().version().folder / name for name in ("report.html", "model/weights.safetensors"))
    Path(str(report)).write_text("<p>another</p>")
    with pytest.raises(RegistryError, match=r"report\.html is damaged: the sha256 differs from that in the log"):
        fresh().version().verify()
    Path(str(weights)).unlink()
    with pytest.raises(ModelError, match=r"^churn@3: .+ cannot be read .+ okl models rollback"):
        fresh().version().load()
    fresh().rollback()
    assert number_in(fresh().version().load()) == 2
    with pytest.raises(ModelError, match=r"^churn@3: "):
        fresh().promote(3)


def test_a_model_that_does_not_load_is_not_published(model: RegisteredModel) -> None:
    for write in (lambda folder: None, lambda folder: (folder / "model").mkdir()):
        with pytest.raises(ModelError, match=r"model\.json cannot be read"):
            model.publish(write, lineage(1))
    assert model.head().number == 0
    assert list((Path(str(model.folder)) / "versions").iterdir()) == []


def test_a_full_disk_at_any_write_leaves_the_registry_unchanged(
    model: RegisteredModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(model, 1, promote=True)
    before = model.head()

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def fills(folder: Path) -> None:
        writer(2)(folder)
        full()

    with pytest.raises(
        RegistryError,
        match=r"cannot be written: No space left on device\. Nothing was changed. Check disk space and permissions",
    ):
        model.publish(fills, lineage(2, 1), promote=True)
    for module, name in ((models_registry, "sync"), (os, "fsync")):
        with monkeypatch.context() as patch:
            patch.setattr(module, name, full)
            with pytest.raises(RegistryError, match="No space left on device"):
                model.publish(writer(2), lineage(2, 1), promote=True)
        assert Registry(model.folder.parent).model("churn").head() == before
    publish(model, 2, 1, promote=True)
    assert model.state().aliases == {"champion": 2, "previous": 1}


def test_an_entry_whose_folder_cannot_be_synced_is_not_called_unchanged(
    model: RegisteredModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    publish(model, 1, promote=True)
    with monkeypatch.context() as patch:
        patch.setattr(registry_log, "sync", broken)
        with pytest.raises(RegistryError, match=r"is written and counts, .+ cannot be synced: Input/output error"):
            publish(model, 2, 1, promote=True)
    assert model.head().number == 2


def test_a_folder_without_hard_links_is_refused(model: RegisteredModel, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", refused)
    with pytest.raises(
        RegistryError, match=r"is on a file system without hard links .+ where two concurrent writers coul"
    ):
        publish(model, 1)


def test_missing_items_and_invalid_names_raise_one_sentence(model: RegisteredModel, tmp_path: Path) -> None:
    with pytest.raises(
        RegistryError, match=r"The registry .+/registry has no model churn\. List its models \(okl models list\)"
    ):
        model.version()
    with pytest.raises(RegistryError, match=rf"{MARK} cannot be read .+ Publishing a model creates a registry"):
        Registry(tmp_path / "none").models()
    publish(model, 1, aliases=["candidate"])
    with pytest.raises(
        RegistryError,
        match=r"churn has no alias 'champion'; its aliases: candidate \(1\)\. Give an alias or a version number",
    ):
        model.version()
    with pytest.raises(RegistryError, match=r"churn has no version 7, only 1 to 1\."):
        model.version("7")
    with pytest.raises(RegistryError, match=r"churn has no version 7"):
        model.publish(writer(2), lineage(2, 7))
    for name in ("", "a/b", "../up", ".hidden", "a b", "churn@1"):
        with pytest.raises(ConfigError, match="is not a name: expected"):
            Registry(tmp_path).model(name)
    for alias, message in (
        ("Best one", "is not a valid alias"),
        ("7", "is not a valid alias"),
        ("champion", "cannot be set directly"),
    ):
        with pytest.raises(ConfigError, match=message):
            model.set_aliases({alias: 1})


def test_a_pinned_reference_keeps_its_version_and_a_folder_of_that_name_has_priority(
    model: RegisteredModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    three_champions(model)
    registry = str(model.folder.parent)
    assert pinned("churn@champion", registry) == "churn@3"
    assert pinned("churn@2", registry) == "churn@2"
    assert [number_in(load(f"churn@{which}", registry)) for which in ("champion", "previous", 1)] == [3, 2, 1]
    monkeypatch.setenv("OKL_REGISTRY", registry)
    assert number_in(load("churn@champion")) == 3
    monkeypatch.chdir(tmp_path)
    save_model(model_numbered(9), tmp_path / "churn@champion")
    assert number_in(load("churn@champion")) == 9
    assert pinned("churn@champion") == "churn@champion"
    monkeypatch.delenv("OKL_REGISTRY")
    monkeypatch.setenv("OKL_HOME", str(tmp_path))
    assert number_in(load("churn@previous")) == 2
