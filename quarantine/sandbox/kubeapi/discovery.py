"""What the server says it can do: /api, /apis, the resources of each group, /version, and a little OpenAPI."""

from __future__ import annotations

from typing import Any, Final

from quarantine.sandbox.kubeapi.resources import ALL, GROUPS, PODS, VERBS, Resource

VERSION: Final[dict[str, Any]] = {
    "major": "1",
    "minor": "36",
    "emulationMajor": "1",
    "emulationMinor": "36",
    "minCompatibilityMajor": "1",
    "minCompatibilityMinor": "35",
    "gitVersion": "v1.36.0+quarantine-sandbox",
    "gitCommit": "",
    "gitTreeState": "",
    "buildDate": "1970-01-01T00:00:00Z",
    "goVersion": "",
    "compiler": "",
    "platform": "linux/amd64",
}
_REVIEW: Final[dict[str, Any]] = {
    "name": "selfsubjectaccessreviews",
    "singularName": "selfsubjectaccessreview",
    "namespaced": False,
    "kind": "SelfSubjectAccessReview",
    "verbs": ["create"],
}


def discover(path: str, address: str) -> dict[str, Any] | None:
    """The document at a discovery path; None where there is none. `address` is host:port."""
    cidrs = [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}]
    fixed = {
        "/version": VERSION,
        "/api": {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": cidrs},
        "/apis": {"kind": "APIGroupList", "apiVersion": "v1", "groups": [_group(name) for name in GROUPS]},
        "/openapi/v3": {
            "paths": {_root(g, v): {"serverRelativeURL": f"/openapi/v3/{_root(g, v)}"} for g, v in _served()}
        },
    }
    fixed |= {f"/apis/{name}": {"kind": "APIGroup", "apiVersion": "v1"} | _group(name) for name in GROUPS}
    if found := fixed.get(path.rstrip("/")):
        return found
    for group, version in _served():
        if path == f"/{_root(group, version)}":
            return _resources(group, version)
        if path == f"/openapi/v3/{_root(group, version)}":
            return _openapi(group, version)
    return None


def _served() -> list[tuple[str, str]]:
    return [("", "v1"), *((group, version) for group, versions in GROUPS.items() for version in versions)]


def _root(group: str, version: str) -> str:
    return f"apis/{group}/{version}" if group else f"api/{version}"


def _group(name: str) -> dict[str, Any]:
    versions = [{"groupVersion": f"{name}/{version}", "version": version} for version in GROUPS[name]]
    return {"name": name, "versions": versions, "preferredVersion": versions[0]}


def _resources(group: str, version: str) -> dict[str, Any]:
    found: list[dict[str, Any]] = []
    for resource in ALL:
        if (resource.group, resource.version) == (group, version):
            found += _descriptions(resource)
    if group == "authorization.k8s.io":
        found.append(_REVIEW)
    text = f"{group}/{version}" if group else version
    return {"kind": "APIResourceList", "groupVersion": text, "resources": sorted(found, key=lambda r: str(r["name"]))}


def _descriptions(resource: Resource) -> list[dict[str, Any]]:
    main: dict[str, Any] = {
        "name": resource.plural,
        "singularName": resource.singular,
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": list(VERBS),
    }
    if resource.short_names:
        main["shortNames"] = list(resource.short_names)
    if resource.categories:
        main["categories"] = list(resource.categories)
    main["storageVersionHash"] = resource.storage_hash
    sub = {"singularName": "", "namespaced": resource.namespaced}
    described = [main]
    if resource.has_status:
        name = f"{resource.plural}/status"
        described.append({"name": name} | sub | {"kind": resource.kind, "verbs": ["get", "patch", "update"]})
    if resource is PODS:
        kind = {"group": "policy", "version": "v1", "kind": "Eviction", "verbs": ["create"]}
        described.append({"name": "pods/eviction"} | sub | kind)
    return described


def _openapi(group: str, version: str) -> dict[str, Any]:
    """Enough for kubectl to see that the server validates fields itself; there are no schemas."""
    paths: dict[str, Any] = {}
    for resource in ALL:
        if (resource.group, resource.version) != (group, version):
            continue
        middle = "namespaces/{namespace}/" if resource.namespaced else ""
        gvk = {"group": group, "version": version, "kind": resource.kind}
        parameters = [{"name": name, "in": "query"} for name in ("dryRun", "fieldManager", "fieldValidation")]
        operation = {"x-kubernetes-group-version-kind": gvk, "parameters": parameters, "responses": {}}
        paths[f"/{_root(group, version)}/{middle}{resource.plural}/{{name}}"] = {"patch": operation}
    info = {"title": "Kubernetes", "version": VERSION["gitVersion"]}
    return {"openapi": "3.0.0", "info": info, "paths": paths}
