"""The files in `examples/batch`, checked by what reads them."""

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

FOLDER = Path(__file__).parents[2] / "examples" / "batch"

START = {"type": "object", "additionalProperties": {"type": "string"}}
POD = {"type": "object", "required": ["spec"], "properties": {"spec": {"required": ["containers"]}}}
WHOLE = {"type": "integer", "minimum": 0}
HEAD = {"rayStartParams": START, "template": POD}
WORKERS = {
    **HEAD,
    "groupName": {"type": "string"},
    "replicas": WHOLE,
    "minReplicas": WHOLE,
    "maxReplicas": WHOLE,
}


def exact_object(properties: dict[str, Any], *optional: str) -> dict[str, Any]:
    """An object with these properties and no others."""
    required = [name for name in properties if name not in optional]
    return {"properties": properties, "required": required, "additionalProperties": False}


SPEC = exact_object(
    {
        "rayVersion": {"type": "string"},
        "headGroupSpec": exact_object(HEAD),
        "workerGroupSpecs": {"type": "array", "items": exact_object(WORKERS, "replicas")},
    }
)
"""Schema of the fields of the operator's RayCluster (ray.io/v1) that the manifest has."""


def spec_of(definition: Path) -> dict[str, Any]:
    """The schema of `spec` in the operator's own definition."""
    versions = yaml.safe_load(definition.read_text(encoding="utf-8"))["spec"]["versions"]
    served = next(each for each in versions if each["name"] == "v1")
    return served["schema"]["openAPIV3Schema"]["properties"]["spec"]


def test_the_manifest_of_kuberay_is_what_the_operator_takes():
    """KUBERAY_CRD names the operator's definition (ray.io_rayclusters.yaml) to check by instead."""
    claim, cluster = yaml.safe_load_all((FOLDER / "kuberay.yaml").read_text(encoding="utf-8"))
    given = os.environ.get("KUBERAY_CRD")
    schema = spec_of(Path(given)) if given else SPEC
    assert [
        error.message for error in Draft202012Validator(schema).iter_errors(cluster["spec"])
    ] == []
    assert (cluster["apiVersion"], cluster["kind"]) == ("ray.io/v1", "RayCluster")
    groups = [cluster["spec"]["headGroupSpec"], *cluster["spec"]["workerGroupSpecs"]]
    for pod in (group["template"]["spec"] for group in groups):
        (volume,) = pod["volumes"]
        assert volume["persistentVolumeClaim"]["claimName"] == claim["metadata"]["name"]
        (container,) = pod["containers"]
        assert [each["name"] for each in container["volumeMounts"]] == [volume["name"]]
        assert {"name": "RAY_AUTH_MODE", "value": "token"} in container["env"]


def test_the_script_of_slurm_is_clean():
    found = shutil.which("shellcheck")
    if found is None:
        pytest.skip("shellcheck is not installed")
    command = [found, str(FOLDER / "slurm.sh")]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout
