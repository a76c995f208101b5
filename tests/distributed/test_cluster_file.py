"""Cluster files: their valid keys, and a cluster that a job queue runs."""

from __future__ import annotations

import gc
import traceback
from pathlib import Path

import numpy as np
import pytest

from okl.data.dataset import Dataset
from okl.distributed import open_execution
from okl.distributed.cluster import PACKAGES, check_versions, start_managed, versions
from okl.distributed.cluster_file import read_cluster_file
from okl.foundation.errors import ConfigError, ExecutionError
from okl.foundation.settings import ExecutionSettings
from tests.distributed.works import SampledSum, add_up

GOOD = 'class = "dask_jobqueue.local.LocalCluster"\nworkers = 2\n[options]\ncores = 1\n'


def write_cluster_file(folder: Path, text: str) -> Path:
    path = folder / "cluster.toml"
    path.write_text(text)
    return path


def test_a_file_defines_class_workers_and_options(tmp_path: Path) -> None:
    file = read_cluster_file(write_cluster_file(tmp_path, GOOD))
    assert (file.module, file.name, file.workers) == ("dask_jobqueue.local", "LocalCluster", 2)
    assert file.options == {"cores": 1}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("class = ", "is not TOML"),
        (GOOD.replace("workers = 2", "worker = 2"), "has 'worker'; expected class, workers"),
        (GOOD.replace("workers = 2", "workers = 0"), "workers = 0; expected an integer of at least 1"),
        (GOOD.replace("workers = 2", "workers = true"), "workers = True; expected"),
        (GOOD.replace("dask_jobqueue.local.LocalCluster", "subprocess.Popen"), "class = 'subprocess.Popen'; expected"),
        (GOOD.replace("dask_jobqueue.local.LocalCluster", "LocalCluster"), "class = 'LocalCluster'; expected"),
        ('options = 3\nclass = "distributed.LocalCluster"\nworkers = 1', "options is a int; expected a table"),
    ],
)
def test_a_file_with_other_content_is_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message.replace("(", r"\(")):
        read_cluster_file(write_cluster_file(tmp_path, text))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nowhere\.toml cannot be read"):
        read_cluster_file(tmp_path / "nowhere.toml")


def test_message_for_a_class_that_is_unknown_or_not_installed_is_helpful(tmp_path: Path) -> None:
    absent = read_cluster_file(
        write_cluster_file(tmp_path, 'class = "dask_cloudprovider.aws.FargateCluster"\nworkers = 1')
    )
    with pytest.raises(ConfigError, match=r"pip install 'okl\[cloudprovider\]'"):
        start_managed(absent)
    misspelt = read_cluster_file(write_cluster_file(tmp_path, 'class = "distributed.LocalClutser"\nworkers = 1'))
    with pytest.raises(ConfigError, match="distributed has no class 'LocalClutser'"):
        start_managed(misspelt)


# dask-jobqueue ends the jobs of its LocalCluster without waiting for them
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_job_queue_gives_the_same_bits(tmp_path: Path, data: Dataset) -> None:
    network_options = 'interface = "lo"\nscheduler_options = {host = "127.0.0.1", dashboard_address = "127.0.0.1:0"}\n'
    folder_options = f'local_directory = "{tmp_path}"\nlog_directory = "{tmp_path}"\n'
    file = write_cluster_file(
        tmp_path, GOOD.replace("workers = 2", "workers = 1") + 'memory = "1 GB"\n' + network_options + folder_options
    )
    work = SampledSum(data, 1)
    with open_execution(threads=1) as local:
        expected = local.sum(work, data.shards, (0, np.zeros(6)), add_up)
    with open_execution(threads=1, cluster=str(file)) as queue:
        assert queue.n_workers == 1
        np.testing.assert_array_equal(queue.sum(work, data.shards, (0, np.zeros(6)), add_up), expected)


def test_options_are_passed_to_the_class_and_never_shown(tmp_path: Path) -> None:
    secrets = 'api_token = "hunter22"\nenv = {BUCKET_KEY = "sesame"}\nmemory = "1 GB"\n'
    file = read_cluster_file(write_cluster_file(tmp_path, GOOD + secrets))
    assert file.options["api_token"] == "hunter22"
    assert "hunter22" not in repr(file)
    assert file.withheld("hunter22 is no token, sesame no key of 1 GB") == "... is no token, ... no key of 1 GB"
    settings = ExecutionSettings(cluster=file.path).model_dump_json()
    assert "hunter22" not in settings
    assert "sesame" not in settings


# incomplete clusters of Dask raise warnings when they are garbage collected
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_options_that_a_class_refuses_are_an_error(tmp_path: Path) -> None:
    file = read_cluster_file(write_cluster_file(tmp_path, GOOD + "memry = '1 GB'\npassword = 'hunter22'\n"))
    with pytest.raises(ExecutionError, match=r"dask_jobqueue\.local\.LocalCluster of .* did not start") as caught:
        start_managed(file)
    assert "hunter22" not in "".join(traceback.format_exception(caught.value))
    del caught
    gc.collect()  # collect the incomplete cluster here, not in another test


def test_workers_with_other_versions_are_named_with_the_command_to_install() -> None:
    own_versions = versions()
    assert set(own_versions) == {"python", *PACKAGES}
    check_versions({"tcp://a:1": own_versions, "tcp://b:1": own_versions})
    with pytest.raises(
        ExecutionError,
        match=rf"Worker tcp://b:1 has other .*: numpy 1\.0 \(here {own_versions['numpy']}\).*"
        rf"pip install numpy=={own_versions['numpy']}$",
    ):
        check_versions({"tcp://a:1": own_versions, "tcp://b:1": own_versions | {"numpy": "1.0"}})
    with pytest.raises(ExecutionError, match=f"Start it with Python {own_versions['python']}"):
        check_versions({"tcp://a:1": own_versions | {"python": "3.99.1"}})
