"""A registry under s3://: the same as in a folder under any server failure; and refused stores."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from wsgiref.types import StartResponse, WSGIEnvironment

import pytest

from okl.foundation.errors import ConflictError, DataError, ModelError, RegistryError
from okl.foundation.locations import RemotePath
from okl.models.reference import load, pinned, resolve_name
from okl.models.registry import Registry
from tests.models.registered import lineage, number_in, publish, writer
from tests.objectstore import Faulty


class Store:
    """A store with sequential puts like a real one, which moto lacks, and with failures.

    lost : whether the answer to a request (method and path) is lost after it was carried out, once for each path
    heeds : whether a put's condition counts
    """

    def __init__(self, app: Any) -> None:
        self._app, self._lock = app, threading.Lock()
        self.reset()

    def reset(self) -> None:
        self.lost, self.heeds = "nowhere", True
        self.gone: set[str] = set()

    def __call__(self, environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        path = environ["PATH_INFO"]
        if not self.heeds:
            environ.pop("HTTP_IF_NONE_MATCH", None)
        if environ["REQUEST_METHOD"] != "PUT":
            answer: Iterable[bytes] = self._app(environ, start)
            return answer
        lost = self.lost in path and path not in self.gone
        with self._lock:
            answer = list(self._app(environ, (lambda *_: None) if lost else start))
        if lost:
            self.gone.add(path)
            raise ConnectionResetError
        return answer


@pytest.fixture(scope="module")
def backend(object_store: Faulty) -> Store:
    """Return the application behind the server, for all tests."""
    store = object_store._app = Store(object_store._app)
    return store


@pytest.fixture(autouse=True)
def store(backend: Store) -> Iterator[Store]:
    """Yield the application behind the server; failures that a test sets end with the test."""
    backend.reset()
    yield backend
    backend.reset()


def perform_all_operations(location: str) -> tuple[Any, ...]:
    """Perform every operation on a model, and return its final state."""
    model = Registry(location).model("churn")
    for number in range(1, 6):
        publish(model, number, number - 1 or None, promote=number != 4, expected={})
    model.rollback(why="wild")
    model.set_aliases({"candidate": 5})
    assert not model.publish(writer(3), lineage(3, 2), promote=True).new
    with pytest.raises(ConflictError):
        model.publish(writer(6), lineage(6, 5), promote=True)
    pruned = model.prune(keep=1)
    again = Registry(location).model("churn")
    for version in again.versions():
        if not version.pruned:
            version.verify()
    return (
        again.state(), pruned, number_in(load("churn@champion", location)),
        [(entry.number, entry.kind, entry.why) for entry in again.entries()],
        [version.published.files for version in again.versions()],
    )  # fmt: skip


def test_a_registry_under_a_url_is_the_registry_in_a_folder_while_one_request_in_ten_fails(
    bucket: RemotePath, server: Faulty, tmp_path: Path
) -> None:
    here = perform_all_operations(str(tmp_path / "registry"))
    server.reset(share=0.1, seed=1)
    assert perform_all_operations(f"{bucket}/registry") == here
    assert server.failed >= 10
    assert [model.name for model in Registry(str(bucket / "registry")).models()] == ["churn"]
    server.reset()
    left = {str(file).split("/")[7] for file, _ in (bucket / "registry/churn/versions").files(below=True)}
    model = Registry(str(bucket / "registry")).model("churn")
    assert left == {version.published.folder for version in model.versions() if not version.pruned}


def test_a_registry_in_memory_works_like_one_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OKL_HOME", str(tmp_path / "home"))
    assert perform_all_operations("memory://registry") == perform_all_operations(str(tmp_path / "registry"))


def test_the_url_of_a_run_selects_its_model_like_its_folder(bucket: RemotePath, server: Faulty, tmp_path: Path) -> None:
    writer(7)(tmp_path / "run")
    run = bucket / "run"
    for name in ("model.json", "weights.safetensors"):
        (run / "model" / name).put(tmp_path / "run" / "model" / name)
    assert resolve_name(tmp_path / "run") == str(tmp_path / "run" / "model")
    for given in (str(run), f"{run}/", str(run / "model")):
        assert pinned(given) == str(run / "model")
        assert number_in(load(given)) == 7
    assert resolve_name(str(bucket / "absent")) == str(bucket / "absent")
    with pytest.raises(ModelError, match=r"absent/model\.json"):
        load(str(bucket / "absent"))
    server.refused = lambda method, path: True
    with pytest.raises(ModelError, match=r"run/model\.json cannot be read: permission was refused"):
        load(str(run))


def test_an_entry_whose_response_was_lost_is_recognised_as_own(
    bucket: RemotePath, server: Faulty, store: Store
) -> None:
    model = Registry(str(bucket)).model("churn")
    store.lost = "json"  # the registry mark, every log entry, and every other .json file
    first, second = publish(model, 1, promote=True), publish(model, 2, 1, promote=True)
    model.rollback()
    assert {path.rpartition("/")[2] for path in store.gone} > {
        "registry.json",
        *(f"0000000{n}.json" for n in (1, 2, 3)),
    }
    assert [(entry.number, entry.kind) for entry in model.entries()] == [
        (1, "publish"),
        (2, "publish"),
        (3, "rollback"),
    ]
    assert (first.number, second.number, model.state().champion) == (1, 2, 1)


def test_one_of_several_writers_wins_with_lost_responses_and_failed_requests(
    bucket: RemotePath, server: Faulty, store: Store
) -> None:
    model = Registry(str(bucket)).model("ring")
    for number in range(1, 4):
        publish(model, number, promote=True, expected={})
    server.reset(share=0.1, seed=2)
    store.lost = "/log/"
    for _ in range(6):
        before = model.head()
        champion = before.state.champion
        ready = threading.Barrier(2)

        def promote(number: int, champion: int | None = champion, ready: threading.Barrier = ready) -> object:
            own = Registry(str(bucket)).model("ring")
            ready.wait()
            try:
                return own.promote(number, expected={"champion": champion})
            except ConflictError as error:
                return error

        with ThreadPoolExecutor(2) as pool:
            outcomes = list(pool.map(promote, [number for number in range(1, 4) if number != champion]))
        (won,) = (outcome for outcome in outcomes if not isinstance(outcome, ConflictError))
        assert won == model.head()
        assert (model.head().number, model.state().aliases["previous"]) == (before.number + 1, champion)
    assert len(store.gone) > 4


def test_a_registry_that_is_unreachable_during_a_write_is_unchanged_and_usable(
    bucket: RemotePath, server: Faulty
) -> None:
    model = Registry(str(bucket)).model("churn")
    publish(model, 1, promote=True)
    before = model.head()
    for part in ("weights.safetensors", "/log/"):
        server.refused = lambda method, path, part=part: method == "PUT" and part in path  # type: ignore[misc]
        with pytest.raises(DataError, match=r"cannot be written: permission was refused"):
            model.publish(writer(2), lineage(2, 1), promote=True)
        server.reset()
        assert Registry(str(bucket)).model("churn").head() == before
    server.refused = lambda method, path: True
    with pytest.raises(DataError, match=r"cannot be listed: permission was refused"):
        load("churn@champion", str(bucket))
    server.reset()
    publish(model, 2, 1, promote=True)
    assert number_in(load("churn@champion", str(bucket))) == 2
    model.prune()
    assert len(model.prune().leftovers) == 1, "what may have been named by an entry is left to pruning"
    assert model.prune().leftovers == ()


def test_a_store_where_two_writers_could_both_win_is_refused(bucket: RemotePath, server: Faulty, store: Store) -> None:
    store.heeds = False
    with pytest.raises(RegistryError, match=r"overwrites files instead of creating them exclusively"):
        publish(Registry(str(bucket)).model("churn"), 1)
    with pytest.raises(RegistryError, match=r"^http:// cannot create a file exclusively, so two concurrent writers"):
        publish(Registry("http://127.0.0.1:9/registry").model("churn"), 1)
    with pytest.raises(RegistryError, match=r"The registry s3://bucket/\S* has no model churn"):
        load("churn@champion", str(bucket))
