"""Files of infra/, checked with the schemas and linters of their tools; no container engine is needed."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sysconfig
import tomllib
from importlib import resources
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]  # no stubs
import kubernetes_validate  # type: ignore[import-untyped]  # no stubs
import pytest
import yaml  # type: ignore[import-untyped]  # no stubs
from packaging.requirements import Requirement
from yamllint import linter  # type: ignore[import-untyped]  # no stubs
from yamllint.config import YamlLintConfig  # type: ignore[import-untyped]  # no stubs

INFRA = Path(__file__).parents[1] / "infra"
MANIFESTS = sorted(path for path in (INFRA / "kubernetes").glob("*.yaml") if path.stem != "kustomization")
EXTERNAL_SECRETS = {
    "okl-secrets",
    "okl-tls-client",
    "okl-tls-scheduler",
    "okl-tls-worker",
}  # created by hand, see README.md
PINNED = re.compile(r"okl:\d+\.\d+[\w.-]*|[a-z]+:\d+\.\d+[\w.-]*@sha256:[0-9a-f]{64}")  # our own image is built here
STYLE = (
    "{extends: default, rules: {line-length: {max: 130}, document-start: disable, braces: {max-spaces-inside: 1}, "
    "comments: {min-spaces-from-content: 1}, comments-indentation: disable, octal-values: disable}}"
)

Content = dict[str, Any]


@pytest.fixture(scope="module")
def services() -> dict[str, Content]:
    found: dict[str, Content] = compose()["services"]
    return found


@pytest.fixture(scope="module")
def objects() -> list[Content]:
    return [one for path in MANIFESTS for one in yaml.safe_load_all(path.read_text())]


def compose() -> Content:
    found: Content = yaml.safe_load((INFRA / "compose.yaml").read_text())
    return found


def pod_of(one: Content) -> Content:
    found: Content = one["spec"]["template"]["spec"]
    return found


def run_pod() -> Content:
    """Return the pod of a run as Prefect's worker starts it: the template with default variables."""
    pool = json.loads((INFRA / "kubernetes" / "pool.json").read_text())
    defaults = {name: field.get("default") for name, field in pool["variables"]["properties"].items()}
    text = re.sub(
        r'"\{\{ (\w+) \}\}(-?)"', lambda found: json.dumps(defaults[found[1]]), json.dumps(pool["job_configuration"])
    )
    manifest: Content = json.loads(text)["job_manifest"]
    return manifest


def pods(objects: list[Content]) -> dict[str, Content]:
    found = {one["metadata"]["name"]: pod_of(one) for one in objects if "template" in one.get("spec", {})}
    return found | {"run": pod_of(run_pod())}


def containers(pod: Content) -> list[Content]:
    return [*pod.get("initContainers", []), *pod["containers"]]


def test_yaml_is_free_of_lint() -> None:
    config = YamlLintConfig(STYLE)
    for path in [*INFRA.glob("*.yaml"), *(INFRA / "kubernetes").glob("*.yaml")]:
        found = [f"{path.name}: {one}" for one in linter.run(path.read_text(), config)]
        assert not found


def test_dockerfile_is_free_of_lint() -> None:
    hadolint = Path(sysconfig.get_path("scripts")) / "hadolint"
    outcome = subprocess.run([hadolint, INFRA / "Dockerfile"], capture_output=True, text=True, check=False)
    assert outcome.returncode == 0, outcome.stdout


def test_image_is_pinned_and_not_of_root() -> None:
    text = (INFRA / "Dockerfile").read_text()
    bases = re.findall(r"^FROM (\S+)", text, re.MULTILINE)
    assert len(bases) == 2
    assert set(bases) == {"${PYTHON}"}
    assert PINNED.fullmatch(re.findall(r"^ARG PYTHON=(\S+)", text, re.MULTILINE)[0])
    assert re.findall(r"^USER (.*)", text, re.MULTILINE) == ["${UID}:${GID}"]
    assert int(re.findall(r"^ARG UID=(\d+)", text, re.MULTILINE)[0]) > 0


def test_image_contains_existing_files_and_no_others() -> None:
    text = (INFRA / "Dockerfile").read_text()
    copied = [word for line in re.findall(r"^COPY (?!--from)(.*)", text, re.MULTILINE) for word in line.split()[:-1]]
    sources = [word for word in copied if not word.startswith("--")]
    assert all(list(INFRA.parent.glob(source)) for source in sources)
    allowed = [line[1:] for line in (INFRA / "Dockerfile.dockerignore").read_text().splitlines() if line[:1] == "!"]
    assert all(any(source == one or source.startswith(f"{one}/") for one in allowed) for source in sources)
    assert not any("secrets" in one or "certificates" in one or ".env" in one for one in allowed)


def test_constraints_agree_with_the_pins() -> None:
    lines = (INFRA / "constraints.txt").read_text().splitlines()
    versions = dict(line.lower().split("==") for line in lines if line and not line.startswith("#"))
    project = tomllib.loads((INFRA.parent / "pyproject.toml").read_text())["project"]
    installed = ("kubernetes-pool", "s3", "jobqueue", "onnx", "skops", "test", "docs", "dev")
    extras = [project["optional-dependencies"][name] for name in installed]
    wanted = [Requirement(one) for group in (project["dependencies"], *extras) for one in group]
    wanted = [one for one in wanted if one.name != "okl"]
    wrong = [str(one) for one in wanted if not one.specifier.contains(versions[one.name.lower()], prereleases=True)]
    assert not wrong


def test_compose_conforms_to_the_specification() -> None:
    schema = json.loads((resources.files("check_jsonschema") / "builtin_schemas/vendor/compose-spec.json").read_text())
    jsonschema.validate(compose(), schema)
    broken = compose()
    broken["services"]["worker"]["healthchek"] = {}
    with pytest.raises(jsonschema.ValidationError, match="healthchek"):
        jsonschema.validate(broken, schema)


def test_services_have_no_rights_and_limits(services: dict[str, Content]) -> None:
    for name, service in services.items():
        assert service["user"].startswith("${OKL_UID:?"), name
        assert service["read_only"] is True, name
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert set(service["deploy"]["resources"]["limits"]) == {"cpus", "memory"}, name
        assert service["restart"] == ("no" if name == "deployments" else "unless-stopped"), name
        assert PINNED.fullmatch(service["image"]), name
        assert service["healthcheck"].get("disable") or service["healthcheck"]["test"][0] == "CMD", name


def test_compose_and_kubernetes_use_the_same_images(services: dict[str, Content], objects: list[Content]) -> None:
    images = {part["image"] for pod in pods(objects).values() for part in containers(pod)}
    assert {service["image"] for service in services.values()} == images


def test_services_are_reachable_from_this_machine_only(services: dict[str, Content]) -> None:
    published = {name: service["ports"] for name, service in services.items() if "ports" in service}
    assert published == {"prefect-server": ["127.0.0.1:${OKL_PORT:-4200}:4200"]}
    networks = compose()["networks"]
    assert networks["database"] == networks["dask"] == {"internal": True}
    assert services["database"]["networks"] == ["database"]
    assert services["dask-worker"]["networks"] == services["scheduler"]["networks"] == ["dask"]


def test_secrets_are_files_and_nothing_else(services: dict[str, Content], objects: list[Content]) -> None:
    declared = compose()["secrets"]
    assert all(set(one) == {"file"} for one in declared.values())
    for service in services.values():
        given = [one["source"] if isinstance(one, dict) else one for one in service.get("secrets", [])]
        assert set(given) <= set(declared)
        assert not any(re.search("PASSWORD$|AUTH_STRING$|KEY$", name) for name in service.get("environment", {}))
    for pod in pods(objects).values():
        plain = [one["name"] for part in containers(pod) for one in part.get("env") or [] if "value" in one]
        assert not any(re.search("PASSWORD$|AUTH_STRING$", name) for name in plain)
    ignored = (INFRA / ".gitignore").read_text().split()
    assert {"secrets/", "certificates/", ".env"} <= set(ignored)


def test_services_depend_on_defined_services(services: dict[str, Content]) -> None:
    volumes = compose()["volumes"]
    for service in services.values():
        assert set(service.get("depends_on", {})) <= set(services)
        named = [one.split(":")[0] for one in service.get("volumes", []) if isinstance(one, str)]
        assert set(named) <= set(volumes)


def test_manifests_conform_to_the_schema_of_kubernetes(objects: list[Content]) -> None:
    newest = kubernetes_validate.latest_version()
    job = run_pod()
    for name in ("completions", "parallelism"):  # Prefect has them in the wrong place; Kubernetes ignores them
        del pod_of(job)[name]
    for one in [*objects, job]:
        kubernetes_validate.validate(one, newest, strict=True)
    broken = next(one for one in objects if one["kind"] == "Namespace") | {"spek": {}}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(broken, newest, strict=True)


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="there is no kubectl")
def test_kustomize_generates_the_manifests_and_config_maps(objects: list[Content]) -> None:
    command = ["kubectl", "kustomize", str(INFRA / "kubernetes")]
    made = [*yaml.safe_load_all(subprocess.run(command, capture_output=True, text=True, check=True).stdout)]
    maps = [one for one in made if one["kind"] == "ConfigMap"]
    for one in maps:
        kubernetes_validate.validate(one, kubernetes_validate.latest_version(), strict=True)
    given, found = (sorted((one["kind"], one["metadata"]["name"]) for one in these) for these in (objects, made))
    assert found == sorted([*given, *(("ConfigMap", one["metadata"]["name"]) for one in maps)])
    assert len(maps) == 2


def test_kustomization_names_every_file() -> None:
    found = yaml.safe_load((INFRA / "kubernetes" / "kustomization.yaml").read_text())
    assert sorted(found["resources"]) == [path.name for path in MANIFESTS]
    generated = [file for one in found["configMapGenerator"] for file in one.get("files", [])]
    assert all((INFRA / "kubernetes" / file).is_file() for file in generated)


def test_pods_have_no_rights_and_limits(objects: list[Content]) -> None:
    found = pods(objects)
    assert set(found) == {"database", "prefect-server", "worker", "scheduler", "dask-worker", "deployments", "run"}
    for name, pod in found.items():
        assert pod["securityContext"]["runAsNonRoot"] is True, name
        assert pod["securityContext"]["runAsUser"] > 0, name
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}, name
        assert pod["automountServiceAccountToken"] is (name == "worker"), name
        for part in containers(pod):
            assert PINNED.fullmatch(part["image"]), name
            assert part["securityContext"] == {
                "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]},
            }, name  # fmt: skip
            assert set(part["resources"]["requests"]) == set(part["resources"]["limits"]) == {"cpu", "memory"}, name
            if name not in ("deployments", "run"):  # which end
                assert {"startupProbe", "readinessProbe", "livenessProbe"} <= set(part), name


def test_pods_reference_defined_objects(objects: list[Content]) -> None:
    names = {kind: {one["metadata"]["name"] for one in objects if one["kind"] == kind} for kind in
             ("PersistentVolumeClaim", "ServiceAccount")}  # fmt: skip
    for name, pod in pods(objects).items():
        volumes = {one["name"]: one for one in pod["volumes"]}
        own = {"database"} if name == "database" else set()  # created by the stateful set
        for volume in volumes.values():
            claim, secret = volume.get("persistentVolumeClaim"), volume.get("secret")
            assert claim is None or claim["claimName"] in names["PersistentVolumeClaim"], name
            assert secret is None or secret["secretName"] in EXTERNAL_SECRETS, name
        for part in containers(pod):
            assert {one["name"] for one in part["volumeMounts"]} <= set(volumes) | own, name
            references = [one["valueFrom"].get("secretKeyRef") for one in part.get("env") or [] if "valueFrom" in one]
            assert {one["name"] for one in references if one} <= EXTERNAL_SECRETS, name
        assert pod.get("serviceAccountName", "worker") in names["ServiceAccount"], name


def test_runs_and_dask_workers_see_the_same_files(services: dict[str, Content], objects: list[Content]) -> None:
    def mounted(pod: Content) -> set[tuple[str, str]]:
        return {(one["name"], one["mountPath"]) for one in pod["containers"][0]["volumeMounts"]}

    found = pods(objects)
    shared = {("home", "/var/lib/okl"), ("data", "/data")}
    assert shared <= mounted(found["run"]) & mounted(found["dask-worker"]) & mounted(found["deployments"])
    for name in ("worker", "dask-worker", "deployments"):
        assert "home:/var/lib/okl" in services[name]["volumes"]
        assert "/data" in [one["target"] for one in services[name]["volumes"] if isinstance(one, dict)]


def test_traffic_is_denied_unless_a_policy_allows_it(objects: list[Content]) -> None:
    policies = {one["metadata"]["name"]: one["spec"] for one in objects if one["kind"] == "NetworkPolicy"}
    assert policies["nobody"] == {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}
    components = set(pods(objects))
    listening = {4200: "prefect-server", 5432: "database", 8786: "scheduler", 8789: "dask-worker"}
    for name, spec in policies.items():
        assert set(re.findall(r"'app.kubernetes.io/component': '([\w-]+)'", str(spec))) <= components, name
        for rule in spec.get("ingress", []):
            assert [listening[one["port"]] for one in rule["ports"]] == [name]
        for rule in spec.get("egress", []):
            selected = str(rule.get("to", "")) if name not in ("names", "worker") else ""
            assert not selected or all(listening[one["port"]] in selected for one in rule["ports"]), name


def test_worker_may_only_handle_jobs(objects: list[Content]) -> None:
    (role,) = (one for one in objects if one["kind"] == "Role")
    granted = {(resource, verb) for rule in role["rules"] for resource in rule["resources"] for verb in rule["verbs"]}
    assert {resource for resource, verb in granted if verb in ("create", "delete")} == {"jobs"}
    assert not {verb for _, verb in granted} & {"*", "patch", "update", "deletecollection"}
    assert not [one for one in objects if one["kind"].startswith("Cluster")]


def test_secrets_reach_a_command_by_their_names(tmp_path: Path) -> None:
    (tmp_path / "PREFECT_API_AUTH_STRING").write_text("okl:'a b' $c\n")
    (tmp_path / "other").write_text("no")
    script, printenv = INFRA / "image" / "with-secrets", str(shutil.which("printenv"))
    found = subprocess.run(
        ["sh", script, printenv], env={"SECRETS": str(tmp_path), "PATH": "/usr/bin:/bin"}, capture_output=True,
        text=True, check=True,
    ).stdout.splitlines()  # fmt: skip
    assert "PREFECT_API_AUTH_STRING=okl:'a b' $c" in found
    assert not any(line.startswith("other") for line in found)
