"""Folders are complete or absent; the next run removes files of killed processes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from okl.foundation.errors import ConfigError, LocationTakenError
from okl.foundation.folders import (
    RunFolder,
    atomic_file,
    check_run_folder,
    remove_leftovers,
    remove_temporary_files,
    write_durably,
)
from okl.foundation.locations import keep_private, make_folders, okl_home, write_private

RUN = """
import sys
from pathlib import Path
from okl.foundation.folders import RunFolder
folder = RunFolder(Path(sys.argv[1]))
folder.open()
(folder.staging / "half").write_text("written")
print("ready", flush=True)
sys.stdin.read()
"""
INGEST = """
import sys
from pathlib import Path
from okl.data.ingest.run import destination_folder
with destination_folder(Path(sys.argv[1])) as folder:
    (folder / "half").write_text("written")
    print("ready", flush=True)
    sys.stdin.read()
"""


def test_a_folder_appears_when_it_is_complete(tmp_path: Path) -> None:
    run_folder = RunFolder(tmp_path / "deep" / "run")
    run_folder.open()
    (run_folder.staging / "file").write_text("content")
    assert not run_folder.folder.exists()
    run_folder.complete()
    run_folder.close()
    assert [path.relative_to(tmp_path).as_posix() for path in sorted(tmp_path.rglob("*"))] == [
        *("deep", "deep/run", "deep/run/file")
    ]


def test_an_incomplete_folder_is_removed_with_its_new_parents(tmp_path: Path) -> None:
    run_folder = RunFolder(tmp_path / "deep" / "er" / "run")
    run_folder.open()
    (run_folder.staging / "file").write_text("content")
    run_folder.close()
    run_folder.close()
    assert list(tmp_path.iterdir()) == []


def test_parents_with_other_files_are_kept(tmp_path: Path) -> None:
    run_folder = RunFolder(tmp_path / "deep" / "run")
    run_folder.open()
    (tmp_path / "deep" / "letter.txt").write_text("dear")
    run_folder.close()
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["letter.txt"]


@pytest.mark.parametrize("held", [RUN, INGEST])
def test_the_next_run_removes_folders_of_killed_processes_but_not_of_live_ones(held: str, tmp_path: Path) -> None:
    command = [sys.executable, "-c", held, str(tmp_path / "run")]
    holders = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    try:
        for holder in holders:
            assert holder.stdout is not None
            assert holder.stdout.readline() == "ready\n"
        (tmp_path / ".mine.unfinished-business").mkdir()
        assert len(list(tmp_path.iterdir())) == 3
        remove_leftovers(tmp_path)
        assert len(list(tmp_path.iterdir())) == 3
        holders[0].kill()
        holders[0].wait()
        other_folder = RunFolder(tmp_path / "other")
        other_folder.open()
        other_folder.close()
        assert len(list(tmp_path.iterdir())) == 2
    finally:
        for holder in holders:
            holder.kill()
            holder.communicate()
    remove_leftovers(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [".mine.unfinished-business"]


def test_two_runs_at_once_do_not_disturb_each_other(tmp_path: Path) -> None:
    first, second = RunFolder(tmp_path / "run"), RunFolder(tmp_path / "run")
    first.open()
    second.open()
    assert first.staging.exists()
    first.complete()
    (first.folder / "file").touch()
    (second.staging / "own").touch()
    with pytest.raises(
        LocationTakenError, match=r"run was written by another process .* this one wrote is in .*run-2\."
    ):
        second.complete()
    second.close()
    first.close()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run", "run-2"]
    assert (tmp_path / "run-2" / "own").exists(), "nothing is lost"


def test_one_of_two_simultaneous_replacements_of_a_folder_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    both = [RunFolder(tmp_path / "set", replaces=True) for _ in range(2)]
    for number, folder in enumerate(both):
        folder.open()
        (folder.staging / "part").write_text(str(number))
    both[0].complete()
    monkeypatch.setattr(Path, "exists", lambda path: False)  # as at the time of the second process's check
    with pytest.raises(LocationTakenError, match=r"set was written by another process at the same time.*Try again"):
        both[1].complete()
    monkeypatch.undo()
    both[1].close()
    assert [path.name for path in tmp_path.iterdir()] == ["set"]
    assert (tmp_path / "set" / "part").read_text() == "0"


def test_a_location_that_exists_or_cannot_be_created_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    os.symlink(tmp_path / "nowhere", tmp_path / "link")
    for existing in (tmp_path, tmp_path / "file", tmp_path / "link"):
        with pytest.raises(ConfigError, match="exists already, and okl never overwrites a result"):
            check_run_folder(existing)
    with pytest.raises(ConfigError, match=r"file/run cannot be created: .*file is a file\. Choose another --out"):
        check_run_folder(tmp_path / "file" / "run")
    check_run_folder(tmp_path / "new" / "run")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "link"]


def test_temporary_files_of_killed_processes_are_removed_and_of_live_ones_are_kept(tmp_path: Path) -> None:
    source = (
        "import os, signal, sys; from pathlib import Path; from okl.foundation.folders import atomic_file\n"
        "with atomic_file(Path(sys.argv[1]) / 'a.json') as path: path.touch(); os.kill(os.getpid(), signal.SIGKILL)"
    )
    subprocess.run([sys.executable, "-c", source, str(tmp_path)], check=False)
    (elsewhere := tmp_path / ".b.json.another-host-1-00000000.tmp").touch()
    assert len(list(tmp_path.iterdir())) == 2
    with atomic_file(tmp_path / "c.json") as writing:
        writing.touch()
        remove_temporary_files(tmp_path)
        assert set(tmp_path.iterdir()) == {elsewhere, writing}


@pytest.fixture
def careless_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


@pytest.mark.usefixtures("careless_umask")
def test_folders_and_secrets_are_private_for_any_umask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OKL_HOME", str(tmp_path / "a" / "home"))
    assert [mode(path) for path in (okl_home(), okl_home().parent)] == [0o700, 0o700]
    run = RunFolder(tmp_path / "runs" / "one")
    run.open()
    run.complete()
    run.close()
    write_durably(tmp_path / "registry" / "file", "")
    write_private(tmp_path / "key", "secret")
    found = [mode(tmp_path / name) for name in ("runs", "runs/one", "registry", "key")]
    assert found == [0o700, 0o700, 0o700, 0o600]
    with pytest.raises(UnicodeEncodeError):
        write_private(tmp_path / "key", "\ud800")
    assert ((tmp_path / "key").read_text(), [*tmp_path.glob(".key*")]) == ("secret", [])


@pytest.mark.usefixtures("careless_umask")
def test_umask_of_okl_grants_more_access_but_never_to_the_home_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OKL_HOME", str(tmp_path))
    tmp_path.chmod(0o755)
    monkeypatch.setenv("OKL_UMASK", "027")
    make_folders(tmp_path / "shared")
    keep_private()
    (tmp_path / "file").touch()
    assert [mode(path) for path in (okl_home(), tmp_path / "shared", tmp_path / "file")] == [0o700, 0o750, 0o640]
    tmp_path.chmod(0o1777)
    assert okl_home().stat().st_mode & 0o7777 == 0o1777, "such as /tmp, which is not only okl's"
    for wrong in ("800", "0o27", "-1", "0277", ""):
        monkeypatch.setenv("OKL_UMASK", wrong)
        with pytest.raises(ConfigError, match=r"OKL_UMASK = '.*'; expected an octal number up to 077, such as 027"):
            keep_private()


def test_an_interrupt_while_a_folder_is_made_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(folder: Path) -> int:
        assert folder.is_dir()
        raise KeyboardInterrupt

    monkeypatch.setattr("okl.foundation.folders.lock_folder", interrupted)
    folder = RunFolder(tmp_path / "run")
    with pytest.raises(KeyboardInterrupt):
        folder.open()
    folder.close()
    assert list(tmp_path.iterdir()) == []
